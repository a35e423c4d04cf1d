package abi

// KeptBytesMax bounds Translated.Kept, StateBytesMax Written.State, and FilterStateMax the
// state of a filter, and with it what it can hold back.
const (
	KeptBytesMax   = 1 << 20
	StateBytesMax  = 4 << 10
	FilterStateMax = 256
)

// Append10 encodes in as modules of ABI 1.0 read it: the sentence of the messages
// protocol, which begins with the path where Msg itself does not name it.
func (in ErrorInput) Append10(dst []byte) []byte {
	in.Msg = in.native(in.Param, in.Msg)
	return in.append10(dst)
}
