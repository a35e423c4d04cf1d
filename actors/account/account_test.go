package account

import (
	"reflect"
	"testing"
)

// TestWithheld: a settlement that charges nothing names the server that answered, and nothing of what it took.
func TestWithheld(t *testing.T) {
	e := Entry{Kind: Settlement, AccountID: "a", RequestID: "r", Amount: -5, Reason: Finished, Note: "n",
		Source: Source{Replica: "http://one", RequestID: "theirs", Usage: "counted"}}
	e.Usage.Output = 3
	want := Entry{Kind: Settlement, AccountID: "a", RequestID: "r", Reason: Failed, Source: Source{Replica: "http://one", RequestID: "theirs"}}
	if got := e.Withheld(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
