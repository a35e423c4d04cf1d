package cli

import (
	"strings"
	"testing"

	"corenode/extensions"
)

// TestListOfALostChoice: a slot whose module nobody knows is seen, with what to do.
func TestListOfALostChoice(t *testing.T) {
	var out strings.Builder
	printModules(&out, []extensions.Info{{Slot: extensions.SlotBilling, State: extensions.StateMissing, Error: "it was lost"}})
	if got := out.String(); !strings.Contains(got, "billing\tnone\t\tmissing\t") || !strings.Contains(got, "billing missing: it was lost\n") {
		t.Error(got)
	}
}
