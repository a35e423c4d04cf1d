package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/extensions"
	"corenode/extensions/meter"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// example is one of the example modules, packed with its manifest.
func example(t *testing.T, folder string) []byte {
	t.Helper()
	dir := filepath.Join("..", "wasm", "examples", folder)
	module, err := os.ReadFile(filepath.Join(dir, "module.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := meter.WithCustomSection(module, "corenode.manifest", manifest)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// startWithModules runs a node that takes unsigned modules and waits until the
// shipped ones serve as Wasm.
func startWithModules(t testing.TB, change func(*config.Config)) (n *node, base, key string, operator *admin.Client) {
	t.Helper()
	n, base, key = startNode(t, func(cfg *config.Config) {
		cfg.Modules.AllowUnsigned = true
		if change != nil {
			change(cfg)
		}
	})
	<-n.modules.Ready()
	operator, err := admin.Dial(n.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	return n, base, key, operator
}

// activate loads a module and lets it serve.
func activate(t *testing.T, operator *admin.Client, folder, settings string) extensions.Info {
	t.Helper()
	in := admin.NewModule{Wasm: example(t, folder)}
	if settings != "" {
		in.Config = json.RawMessage(settings)
	}
	m, err := operator.LoadModule(in)
	if err != nil {
		t.Fatalf("load %s: %v", folder, err)
	}
	if m, err = operator.ActivateModule(m.Digest); err != nil || m.State != extensions.StateActive {
		t.Fatalf("activate %s: %+v, %v", folder, m, err)
	}
	return m
}

// openStream begins a chat stream and returns it after its first chunk.
func openStream(ctx context.Context, base, key string, tokens int) (id string, rest *bufio.Reader, done func(), err error) {
	body := fmt.Sprintf(`{"model":"endless","max_tokens":%d,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"go"}]}`, tokens)
	response, err := postChat(ctx, base, key, body)
	if err != nil {
		return "", nil, nil, err
	}
	rest = bufio.NewReader(response.Body)
	if line, err := rest.ReadString('\n'); err != nil || response.StatusCode != 200 || !strings.HasPrefix(line, "data: ") {
		response.Body.Close()
		return "", nil, nil, fmt.Errorf("status %d, %v: %s", response.StatusCode, err, line)
	}
	return response.Header.Get("X-Llm-Request-Id"), rest, func() { response.Body.Close() }, nil
}

func postChat(ctx context.Context, base, key, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, "POST", base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(request)
}

// wholeChat posts a body and returns status, answer and request id.
func wholeChat(t testing.TB, base, key, body string) (status int, answer, id string) {
	t.Helper()
	response, err := postChat(t.Context(), base, key, body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header.Get("X-Llm-Request-Id")
}

const (
	chatBody   = `{"model":"endless","max_tokens":4,"messages":[{"role":"user","content":"go"}]}`
	promptBody = `{"model":"endless","max_tokens":4,"prompt":"go"}`
	feeNano    = 2_000_000
)

// settled is the ledger row of a request.
func settled(t testing.TB, n *node, id string) account.Entry {
	t.Helper()
	e, err := n.store.Settlement(id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// listed is what the tariff asks for a row's usage.
func listed(n *node, e account.Entry) abi.Nano {
	p := n.cfg.Models[e.Model].Prices.Rates()
	return p.Input*abi.Nano(e.Usage.InputUncached) + p.Cached*abi.Nano(e.Usage.CacheRead) + p.Output*abi.Nano(e.Usage.Output)
}

// endless makes a node serve one model, whose answers go on until max_tokens.
func endless(t *testing.T) func(*config.Config) {
	path := endlessModel(t) // for its tokenizer and template
	return func(cfg *config.Config) {
		m := cfg.Models["core-1.1-mini"]
		m.Engine, m.StepTime, m.Path, m.ContextLength = config.EngineInstant, stepTime, path, 4096
		m.Batch.SequencesMax = 64
		m.Batch.GapMax, m.Batch.GapStretchMax = time.Hour, 0 // all run at once, however slow the machine
		cfg.Limits.QueueTimeout = time.Hour                  // and none is refused for what the machine is expected to take
		cfg.Models = map[string]config.Model{"endless": m}
	}
}

// TestModulesAreSwappedUnderStreams: 64 streams run while another translator
// and another billing module become active. No stream breaks or changes its
// language or its price; new requests see the new modules; rollback restores
// the old ones; all of it is in the ledger, and can be replayed.
func TestModulesAreSwappedUnderStreams(t *testing.T) {
	n, base, key, operator := startWithModules(t, endless(t))
	const streams, tokens = 64, 60
	ids := make([]string, streams)
	var reading sync.WaitGroup
	swapped := make(chan struct{})
	opened := make(chan error, streams)
	for i := range streams {
		reading.Go(func() {
			id, rest, done, err := openStream(t.Context(), base, key, tokens)
			opened <- err
			if err != nil {
				return
			}
			defer done()
			ids[i] = id
			<-swapped // unread until the modules are others
			text, err := io.ReadAll(rest)
			if err != nil || !bytes.HasSuffix(text, []byte("data: [DONE]\n\n")) || !bytes.Contains(text, []byte(`"completion_tokens":60`)) ||
				bytes.Contains(text, []byte("text_completion")) {
				t.Errorf("stream %d broke: %v, ends %q", i, err, text[max(0, len(text)-200):])
			}
		})
	}
	for range streams {
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
	}
	tariff := settledBy(t, n, base, key)
	translator, fee := activate(t, operator, "translator-c", ""), activate(t, operator, "billing-c", fmt.Sprintf(`{"fee_nano":%d}`, feeNano))
	close(swapped)
	status, answer, id := wholeChat(t, base, key, promptBody)
	if status != 200 || !strings.Contains(answer, `"object":"text_completion"`) {
		t.Errorf("a new request is answered %d %s", status, answer)
	}
	if e := settled(t, n, id); e.ModuleDigest != fee.Digest || -e.Amount != listed(n, e)+feeNano {
		t.Errorf("a new request costs %d by %s, want %d by %s", -e.Amount, e.ModuleDigest, listed(n, e)+feeNano, fee.Digest)
	}
	reading.Wait()
	for _, id := range ids {
		if e := settled(t, n, id); e.ModuleDigest != tariff || -e.Amount != listed(n, e) || e.Usage.Output != tokens {
			t.Errorf("a stream from before: %+v, want %s", e, tariff)
		}
	}
	for _, s := range []extensions.Slot{extensions.SlotChat, extensions.SlotBilling} {
		if m, err := operator.Rollback(string(s)); err != nil || !m.Shipped || m.Digest == translator.Digest {
			t.Errorf("roll back %s: %+v, %v", s, m, err)
		}
	}
	if got := settledBy(t, n, base, key); got != tariff {
		t.Errorf("after the rollback %s charges, want %s", got, tariff)
	}
	for _, id := range []string{id, ids[0]} {
		if r, err := operator.Replay(id); err != nil || !r.Same {
			t.Errorf("replay of %s: %+v, %v", id, r, err)
		}
		if e, err := operator.Explain(id); err != nil || e.ChargedNanoUSD <= 0 || explained(e) != e.ChargedNanoUSD {
			t.Errorf("the lines of %s do not add up: %+v, %v", id, e, err)
		}
	}
	if v, err := n.store.Verify(); err != nil || len(v.Findings) > 0 {
		t.Errorf("the ledger: %+v, %v", v, err)
	}
}

// explained is what the lines of a charge add up to.
func explained(e admin.ExplainedCharge) (sum abi.Nano) {
	for _, row := range e.Rows {
		for _, line := range row.Lines {
			sum += line.AmountNanoUSD
		}
	}
	return sum
}

// settledBy makes a request and says which module charged it.
func settledBy(t *testing.T, n *node, base, key string) (digest string) {
	t.Helper()
	status, answer, id := wholeChat(t, base, key, chatBody)
	if status != 200 {
		t.Fatalf("status %d: %s", status, answer)
	}
	return settled(t, n, id).ModuleDigest
}

// TestModulesSurviveRestart: what was active is active again, its signature
// and metering checked anew; a removed module is gone, but what it charged can
// be replayed.
func TestModulesSurviveRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	model := endless(t)
	var first, second string
	t.Run("before", func(t *testing.T) {
		n, base, key, operator := startWithModules(t, func(cfg *config.Config) { model(cfg); cfg.DataDir = dir })
		first = activate(t, operator, "billing-c", `{"fee_nano":7}`).Digest
		if got := settledBy(t, n, base, key); got != first {
			t.Errorf("charged by %s, want %s", got, first)
		}
	})
	secret, err := os.ReadFile(filepath.Join(dir, "default.key"))
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSpace(string(secret))
	t.Run("after", func(t *testing.T) {
		n, err := start(sameConfig(dir, model), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		defer n.stop()
		<-n.modules.Ready()
		base := "http://" + n.public.Addr().String()
		status, answer, id := wholeChat(t, base, key, chatBody)
		if e := settled(t, n, id); status != 200 || e.ModuleDigest != first || -e.Amount != listed(n, e)+7 {
			t.Errorf("after the restart %d %s, charged %+v", status, answer, e)
		}
		operator, err := admin.Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := operator.RemoveModule(first); err == nil {
			t.Error("an active module was removed")
		}
		if _, err := operator.Rollback("billing"); err != nil {
			t.Fatal(err)
		}
		if second = settledBy(t, n, base, key); second == first {
			t.Error("the rollback changed nothing")
		}
		if err := operator.RemoveModule(first); err != nil {
			t.Error(err)
		}
		if r, err := operator.Replay(id); err != nil || !r.Same || r.Entry.ModuleDigest != first {
			t.Errorf("replay by a removed module: %+v, %v", r, err)
		}
	})
	t.Run("a file that was changed is refused", func(t *testing.T) {
		cfg := sameConfig(dir, model)
		cfg.Modules.AllowUnsigned = false
		n, err := start(cfg, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		defer n.stop()
		<-n.modules.Ready()
		if got := settledBy(t, n, "http://"+n.public.Addr().String(), key); got != second {
			t.Errorf("charged by %s, want the shipped %s", got, second)
		}
	})
}

func sameConfig(dir string, model func(*config.Config)) *config.Config {
	cfg := config.Default()
	cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir, cfg.Modules.AllowUnsigned = "127.0.0.1:0", dir, moduleCache, true
	model(cfg)
	return cfg
}

// TestCrashedHoldsAreRatedByTheirModule: what a crash left open is charged by
// the module that quoted it, also when another one is active by now, and
// provisionally where that stood in for the operator's; and at the prices of the
// process that crashed.
func TestCrashedHoldsAreRatedByTheirModule(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	model := endless(t)
	var fee string
	var crashed *node
	t.Run("before", func(t *testing.T) {
		n, _, _, operator := startWithModules(t, func(cfg *config.Config) { model(cfg); cfg.DataDir = dir })
		crashed = n
		fee = activate(t, operator, "billing-c", `{"fee_nano":5}`).Digest
		a, err := n.store.Account("default")
		if err != nil {
			t.Fatal(err)
		}
		row := account.Entry{Kind: account.Hold, AccountID: a.ID, RequestID: "req_crash", Model: "endless", Time: time.Now(), Held: 1e6, ModuleDigest: fee}
		seen := row
		seen.Kind, seen.Held, seen.ModuleDigest, seen.Usage = account.Checkpoint, 0, "", abi.Usage{InputUncached: 3, Output: 2}
		stood, stoodSeen := row, seen // the same when `quote` of the module failed
		stood.RequestID, stood.ModuleDigest, stood.Provisional = "req_stood", "builtin:tariff@1", true
		stoodSeen.RequestID = stood.RequestID
		if err := n.store.Append([]account.Entry{row, seen, stood, stoodSeen}); err != nil {
			t.Fatal(err)
		}
	})
	n, err := start(sameConfig(dir, func(cfg *config.Config) {
		model(cfg)
		m := cfg.Models["endless"]
		m.Prices.Output *= 2
		cfg.Models["endless"] = m
	}), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer n.stop()
	e := settled(t, n, "req_crash")
	if e.ModuleDigest != fee || -e.Amount != listed(crashed, e)+5 || e.Provisional || e.Reason != account.Crashed {
		t.Errorf("settled %+v, want by %s", e, fee)
	}
	e = settled(t, n, "req_stood")
	if e.ModuleDigest != "builtin:tariff@1" || -e.Amount != listed(crashed, e) || !e.Provisional || e.Reason != account.Crashed {
		t.Errorf("settled %+v, want provisionally by the tariff", e)
	}
	if page := scraped(t, n); !strings.Contains(page, "\ncorenode_provisional_charges_total 1\n") {
		t.Errorf("of two charges one was provisional: %s", regexp.MustCompile(`(?m)^corenode_provisional.*$`).FindString(page))
	}
}

// TestFailingBillingIsProvisionalAndRatedAgain: while a module fails, the
// built-in tariff charges provisionally; the operator has it rated again.
func TestFailingBillingIsProvisionalAndRatedAgain(t *testing.T) {
	n, base, key, operator := startWithModules(t, endless(t))
	a, err := n.store.Account("default")
	if err != nil {
		t.Fatal(err)
	}
	activate(t, operator, "billing-c", `{"fee_nano":11}`)
	in := abi.ChargeInput{Usage: abi.Usage{InputUncached: 100, Output: 10}, Model: "endless", Account: a.ID, Prices: n.cfg.Models["endless"].Prices.Rates()}
	provisional := account.Entry{Kind: account.Settlement, AccountID: a.ID, RequestID: "req_p", Model: "endless", Time: time.Now(), Amount: -1,
		Usage: in.Usage, Tier: 1, Reason: account.Finished, ModuleDigest: "builtin:tariff@1", ChargeInput: in.Append(nil), Provisional: true}
	if err := n.store.Append([]account.Entry{provisional}); err != nil {
		t.Fatal(err)
	}
	r, err := operator.Rerate()
	if err != nil || r.Rated != 1 {
		t.Fatalf("re-rated %+v, %v", r, err)
	}
	if want := 1 - (listed(n, provisional) + 11); r.AmountNanoUSD != want {
		t.Errorf("adjusted by %d, want %d", r.AmountNanoUSD, want)
	}
	rows, _, err := n.store.Statement(store.StatementQuery{AccountID: a.ID})
	if err != nil || rows[len(rows)-1].Kind != account.Adjustment {
		t.Errorf("rows %+v, %v", rows, err)
	}
	if status, answer, _ := wholeChat(t, base, key, chatBody); status != 200 {
		t.Errorf("after it: %d %s", status, answer)
	}
}

// TestStartAfterACrashWaitsForNoModule: what a crash left open needs the module that quoted it, and a start waits for
// that one alone, and for none where it was the native build. All others are compiled while the node serves.
func TestStartAfterACrashWaitsForNoModule(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	model := endless(t)
	var fee string
	rows := func(n *node, module string, ids ...string) {
		t.Helper()
		a, err := n.store.Account("default")
		for _, id := range ids {
			row := account.Entry{Kind: account.Hold, AccountID: a.ID, RequestID: id, Model: "endless", Time: time.Now(), Held: 1e6,
				ModuleDigest: module}
			seen := row
			seen.Kind, seen.Held, seen.ModuleDigest, seen.Usage = account.Checkpoint, 0, "", abi.Usage{InputUncached: 3, Output: 2}
			err = errors.Join(err, n.store.Append([]account.Entry{row, seen}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Run("before", func(t *testing.T) {
		n, _, _, operator := startWithModules(t, func(cfg *config.Config) { model(cfg); cfg.DataDir = dir })
		fee = activate(t, operator, "billing-c", `{"fee_nano":5}`).Digest
		rows(n, fee, "req_module", "req_module_too")
	})
	after := func(t *testing.T, then func(n *node)) {
		cfg := sameConfig(dir, model)
		cfg.Modules.CacheDir = t.TempDir()
		log, _, err := newLogger(cfg, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		// Whoever is asked first compiles nothing, so that the node does, and nobody who is asked later ever comes to an end.
		lets := `mkdir "$0/asked" 2>/dev/null || exec sleep 3600; exit 1`
		n, err := openWith(cfg, log, []string{"sh", "-c", lets, t.TempDir()}, standIns{})
		if err != nil {
			t.Fatal(err)
		}
		n.begin()
		select {
		case <-n.modules.Ready():
			t.Error("all modules are in memory: nothing was shown")
		default:
		}
		then(n)
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}
	t.Run("by a module", func(t *testing.T) {
		after(t, func(n *node) {
			for _, id := range []string{"req_module", "req_module_too"} {
				if e := settled(t, n, id); e.ModuleDigest != fee || e.Provisional || e.Reason != account.Crashed {
					t.Errorf("settled %+v, want by %s", e, fee)
				}
			}
			rows(n, "builtin:tariff@1", "req_native")
		})
	})
	t.Run("by the native build", func(t *testing.T) {
		after(t, func(n *node) {
			if e := settled(t, n, "req_native"); e.ModuleDigest != "builtin:tariff@1" || e.Provisional || e.Reason != account.Crashed {
				t.Errorf("settled %+v, want by the native build", e)
			}
		})
	})
}
