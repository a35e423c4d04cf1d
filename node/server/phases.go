package server

import "time"

// The phases of an admitted request, one behind the other; the hold's row becomes durable beside
// those that follow it.
const (
	spanReceive = iota
	spanPrepare
	spanAdmission
	spanHold
	spanQueue
	spanPrefill
	spanDecode
	spanSettle
	phases
)

var phaseNames = [phases]string{"receive", "prepare", "admission", "hold", "queue", "prefill", "decode", "settle"}

// phases are how long each took, 0 for one that was not reached.
func (x *exchange) phases() [phases]time.Duration {
	s := &x.settled
	all := [phases]time.Duration{spanReceive: x.arrived.Sub(x.begun), spanAdmission: s.Admission, spanHold: s.Hold,
		spanQueue: s.Queue, spanPrefill: s.Prefill, spanDecode: s.Decode}
	if !x.prepared.IsZero() {
		all[spanPrepare] = x.prepared.Sub(x.arrived)
	}
	if !x.settleEnded.IsZero() { // else it did not end while its request waited
		all[spanSettle] = x.settleEnded.Sub(x.settleBegan)
	}
	return all
}
