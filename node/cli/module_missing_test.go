package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/extensions"
	"corenode/extensions/guest"
)

// TestListOfALostChoice: a slot whose module nobody knows is seen, with what to do.
func TestListOfALostChoice(t *testing.T) {
	var out strings.Builder
	printModules(&out, []extensions.Info{{Slot: extensions.SlotBilling, State: extensions.StateMissing, Error: "it was lost"}})
	if got := out.String(); !strings.Contains(got, "billing\tnone\t\t-\tmissing\t") || !strings.Contains(got, "billing missing: it was lost\n") {
		t.Error(got)
	}
}

// TestListTellsConfigurationsApart: who looks at the list sees whether it is the one of a file.
func TestListTellsConfigurationsApart(t *testing.T) {
	var out strings.Builder
	printModules(&out, []extensions.Info{{Slot: extensions.SlotChat, Name: "verse", Version: "1", Digest: "sha256:ab", ConfigSHA256: "0123456789abcdef",
		State: extensions.StateActive}})
	if got := out.String(); !strings.Contains(got, "\tDIGEST\tCONFIG\tSTATE\t") || !strings.Contains(got, "\tsha256:ab\t01234567\tactive\t") {
		t.Error(got)
	}
}

// TestModuleTooLargeToLoad: a file that no node takes is not sent, and the command says so.
func TestModuleTooLargeToLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large.wasm")
	for _, c := range []struct {
		size int64
		want string
	}{{guest.BytesMax, ""}, {guest.BytesMax + 1, "8388609 bytes"}} {
		if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, c.size)); err != nil {
			t.Fatal(err)
		}
		_, err := newModule(file, "", "")
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d bytes: %v, want %q", c.size, err, c.want)
		}
	}
}
