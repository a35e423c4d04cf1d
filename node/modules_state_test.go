package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/extensions"
	"corenode/node/admin"
	"corenode/node/config"
)

// TestCutModuleState: a state.json that was cut does not keep the node from
// starting: the copy says who serves. Without one nobody is charged for good by
// what only stands there, and no request is admitted, until an operator chooses.
func TestCutModuleState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var billing, key string
	t.Run("before", func(t *testing.T) {
		var operator *admin.Client
		_, _, key, operator = startWithModules(t, func(cfg *config.Config) { instantModels(cfg); cfg.DataDir = dir })
		billing = activate(t, operator, "billing-c", `{"fee_nano":7}`).Digest
		activate(t, operator, "admission-c", "")
	})
	const body = `{"model":"core-1.1","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`
	open := func(t *testing.T) (n *node, operator *admin.Client, base string) {
		n, err := start(sameConfig(dir, instantModels), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.stop() })
		<-n.modules.Ready()
		operator, err = admin.Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		return n, operator, "http://" + n.public.Addr().String()
	}
	cut := func(t *testing.T, name string, length int64) {
		if err := os.Truncate(filepath.Join(dir, "modules", name), length); err != nil {
			t.Fatal(err)
		}
	}
	for _, length := range []int64{40, 0} {
		t.Run(fmt.Sprintf("cut to %d bytes", length), func(t *testing.T) {
			cut(t, "state.json", length)
			n, operator, base := open(t)
			status, answer, id := wholeChat(t, base, key, body)
			if status != 200 {
				t.Fatalf("%d %s", status, answer)
			}
			if e := settled(t, n, id); e.ModuleDigest != billing || e.Provisional {
				t.Errorf("charged %+v", e)
			}
			hasMetrics(t, n, "corenode_modules_state_damaged 1", `corenode_module_slot_missing{slot="billing"} 0`)
			if got := statusOf(t, base+"/readyz"); got != 200 {
				t.Errorf("/readyz is %d", got)
			}
			if _, err := operator.ActivateModule(billing); err != nil {
				t.Error(err)
			}
			hasMetrics(t, n, "corenode_modules_state_damaged 0")
		})
	}
	t.Run("and the copy too", func(t *testing.T) {
		cut(t, "state.json", 40)
		cut(t, "state.copy.json", 0)
		n, operator, base := open(t)
		chooseAgain(t, n, operator, base, key, body, billing)
	})
}

// chooseAgain: of a node that has lost its operator's choices, slots are missing
// until the operator chooses again.
func chooseAgain(t *testing.T, n *node, operator *admin.Client, base, key, body, billing string) {
	hasMetrics(t, n, "corenode_modules_state_damaged 1", `corenode_module_slot_missing{slot="billing"} 1`,
		`corenode_module_slot_missing{slot="admission"} 1`, `corenode_module_slot_missing{slot="chat"} 0`)
	if got := statusOf(t, base+"/readyz"); got != 503 {
		t.Errorf("/readyz is %d while admission is closed", got)
	}
	if status, answer, _ := wholeChat(t, base, key, body); status != 503 {
		t.Errorf("admitted: %d %s", status, answer)
	}
	if m, err := operator.Rollback("admission"); err != nil || m.Slot != extensions.SlotAdmission {
		t.Fatalf("%+v, %v", m, err)
	}
	hasMetrics(t, n, "corenode_modules_state_damaged 0", `corenode_module_slot_missing{slot="billing"} 1`)
	if got := statusOf(t, base+"/readyz"); got != 200 {
		t.Errorf("/readyz is %d after the operator's choice", got)
	}
	_, _, id := wholeChat(t, base, key, body)
	if e := settled(t, n, id); !e.Provisional {
		t.Errorf("charged for good: %+v", e)
	}
	if _, err := operator.ActivateModule(billing); err != nil {
		t.Fatal(err)
	}
	_, _, id = wholeChat(t, base, key, body)
	if e := settled(t, n, id); e.Provisional || e.ModuleDigest != billing {
		t.Errorf("charged %+v after the operator's choice", e)
	}
	if r, err := operator.Rerate(); err != nil || r.Rated != 1 || r.AmountNanoUSD != -7 {
		t.Errorf("rated again: %+v, %v", r, err)
	}
}

// TestReadyNamesSlots: whoever asks why nothing is served is told of the slots without which all is refused.
func TestReadyNamesSlots(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	t.Run("before", func(t *testing.T) {
		_, _, _, operator := startWithModules(t, func(cfg *config.Config) { instantModels(cfg); cfg.DataDir = dir })
		for _, module := range []string{"rewrite-c", "filter-c"} {
			activate(t, operator, module, "")
		}
	})
	files, err := filepath.Glob(filepath.Join(dir, "modules", "*.wasm"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	n, err := start(sameConfig(dir, instantModels), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.stop() })
	<-n.modules.Ready()
	if err := n.ready(); err == nil || err.Error() != "every request is refused: no module is in memory of [rewrite filter]" {
		t.Errorf("not ready: %v", err)
	}
}

func statusOf(t *testing.T, url string) int {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// hasMetrics looks for lines among the series of the modules.
func hasMetrics(t *testing.T, n *node, lines ...string) {
	t.Helper()
	var written strings.Builder
	n.writeModuleMetrics(&written)
	for _, line := range lines {
		if !strings.Contains(written.String(), line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}
