package upstream

// Reason is the class of what took a replica out.
type Reason uint8

// The reasons, as metrics and logs name them.
const (
	ReasonProbe   Reason = iota // its health page failed
	ReasonConnect               // no connection, or it ended before the first byte of an answer
	ReasonStatus                // a status that says the server failed
	ReasonStall                 // nothing came in time
	ReasonBroken                // the answer broke off, or was against its protocol
	reasons
)

var reasonNames = [reasons]string{"probe", "connect", "status", "stall", "broken"}

// Reasons lists them.
func Reasons() []Reason {
	return []Reason{ReasonProbe, ReasonConnect, ReasonStatus, ReasonStall, ReasonBroken}
}

// String returns the reason's name.
func (r Reason) String() string { return reasonNames[r] }
