package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"corenode/extensions"
	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/wasm/abi"
)

// The benchmarks of this file send streams of 32 accounts, each one after the
// other, to a node with an instant model, over all three protocols.
const slowClients = 32

// BenchmarkSlowModule lets the slowest module that the node takes be active in
// each slot in turn. It reports what the streams of all accounts took, those
// included that the module answers, and how many failed; where it translates, the
// streams of its own protocol apart. Between two streams a
// client thinks for 50 ms.
func BenchmarkSlowModule(b *testing.B) {
	for _, s := range append([]extensions.Slot{""}, extensions.Slots[:]...) {
		name := string(s)
		if s == "" {
			name = "none"
		}
		b.Run(name, func(b *testing.B) {
			n, base, keys, operator := slowNode(b)
			if s != "" {
				activateSlow(b, operator, s)
			}
			for b.Loop() {
				took, failed := streams(base, keys, 50*time.Millisecond, 10*time.Second, shortBodies)
				if i := slices.Index(slowSlots[:], s); i > 0 { // its own protocol apart from the others
					reportStreams(b, "own-", took[i], 0)
					took[i] = nil
				}
				reportStreams(b, "", slices.Concat(took[:]...), failed)
			}
			for _, use := range n.modules.Uses() {
				if use.Slot == s {
					b.ReportMetric(float64(use.Declined), "declined")
					b.ReportMetric(float64(use.Waits), "waits")
					b.ReportMetric(use.CPU.Seconds(), "module-cpu-s")
				}
			}
		})
	}
}

// BenchmarkHonestShare sends as much as the node can take through the modules that
// ship, and reports the share of the processors that they used, which must stay
// below extensions.CPUShareDefault, and the calls that were declined for it: none.
func BenchmarkHonestShare(b *testing.B) {
	for _, c := range []struct {
		name   string
		bodies [3]string
	}{{"short", shortBodies}, {"1MB", largeBodies(1 << 20)}, {"100KB-of-turns", manyTurns(100 << 10)},
		{"100KB-of-turns-one-slot", oneSlot(manyTurns(100 << 10))}} {
		b.Run(c.name, func(b *testing.B) {
			n, base, keys, _ := slowNode(b)
			before := n.modules.Uses()
			began := time.Now()
			for b.Loop() {
				took, failed := streams(base, keys, 0, 10*time.Second, c.bodies)
				reportStreams(b, "", slices.Concat(took[:]...), failed)
			}
			passed := time.Since(began).Seconds()
			for i, use := range n.modules.Uses() {
				share := (use.CPU - before[i].CPU).Seconds() / passed / use.Limit * extensions.CPUShareDefault
				b.ReportMetric(share, string(use.Slot)+"-share")
				b.ReportMetric(float64(use.Declined-before[i].Declined), string(use.Slot)+"-declined")
			}
		})
	}
}

func reportStreams(b *testing.B, whose string, took []time.Duration, failed int) {
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(failed), whose+"failed")
	b.ReportMetric(float64(len(took)), whose+"streams")
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[(len(took)-1)*p/100].Microseconds())/1e3, fmt.Sprintf("%sp%d-ms", whose, p))
	}
}

// slowNode is a node that takes unsigned modules, with accounts that have money and limits.
func slowNode(b *testing.B) (n *node, base string, keys []string, operator *admin.Client) {
	b.Helper()
	cfg := config.Default()
	cfg.Listen, cfg.DataDir, cfg.Modules.CacheDir, cfg.Modules.AllowUnsigned = "127.0.0.1:0", b.TempDir(), moduleCache, true
	instantModels(cfg)
	n, err := start(cfg, io.Discard)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.stop() })
	<-n.modules.Ready()
	if operator, err = admin.Dial(cfg.DataDir); err != nil {
		b.Fatal(err)
	}
	for i := range slowClients {
		a, err := operator.CreateAccount(admin.NewAccount{Name: fmt.Sprint("account-", i), Balance: admin.Amount{USD: "1000"},
			Concurrency: 8, TokensPerMinute: 1 << 40})
		if err != nil {
			b.Fatal(err)
		}
		keys = append(keys, a.Key)
	}
	return n, "http://" + n.public.Addr().String(), keys, operator
}

// slowSlots are the slots of the translators behind them.
var slowSlots = [...]extensions.Slot{"", extensions.SlotChat, extensions.SlotResponses}

// slowPaths are where the bodies of each protocol go, in their order.
var slowPaths = [...]string{"/v1/messages", "/v1/chat/completions", "/v1/responses"}

var shortBodies = largeBodies(10)

// largeBodies ask for a short stream after so many bytes of prompt.
func largeBodies(size int) [3]string {
	text := strings.Repeat("hello you ", size/10)
	const message = `"messages":[{"role":"user","content":%q}]}`
	return [3]string{
		fmt.Sprintf(`{"model":"core-1.1-mini","max_tokens":16,"stream":true,`+message, text),
		fmt.Sprintf(`{"model":"core-1.1-mini","max_tokens":16,"stream":true,`+message, text),
		fmt.Sprintf(`{"model":"core-1.1-mini","max_output_tokens":16,"stream":true,"input":%q}`, text),
	}
}

// manyTurns are conversations of so many bytes, of short turns with much to escape:
// what costs a translator most beside all that a node does with a prompt.
func manyTurns(size int) [3]string {
	bodies := largeBodies(10)
	const turns = `{"role":"user","content":"\n\"\\u00e9\""},{"role":"assistant","content":"\t\"b\""},`
	many := strings.Repeat(turns, size/len(turns))
	for i := range bodies {
		bodies[i] = strings.Replace(bodies[i], `"messages":[`, `"messages":[`+many, 1)
	}
	bodies[2] = strings.Replace(bodies[2], `"input":"hello you "`, `"input":[`+many+`{"role":"user","content":"hello"}]`, 1)
	return bodies
}

// oneSlot leaves the last protocol, whose translator takes most.
func oneSlot(bodies [3]string) [3]string { return [3]string{2: bodies[2]} }

// streams lets each key's client send one stream after the other, the protocols in
// turn, and says what each took that did not fail, by protocol.
func streams(base string, keys []string, think, duration time.Duration, bodies [3]string) (took [3][]time.Duration, failed int) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: len(keys)}}
	defer client.CloseIdleConnections()
	end := time.Now().Add(duration)
	for i, key := range keys {
		wait.Go(func() {
			for n := i; time.Now().Before(end); n++ {
				if bodies[n%3] == "" {
					continue
				}
				began := time.Now()
				ok := oneStream(client, base+slowPaths[n%3], key, bodies[n%3])
				passed := time.Since(began)
				mu.Lock()
				if ok {
					took[n%3] = append(took[n%3], passed)
				} else {
					failed++
				}
				mu.Unlock()
				time.Sleep(think)
			}
		})
	}
	wait.Wait()
	return took, failed
}

// endings are what a whole stream of each protocol has near its end.
var endings = [...]string{"message_stop", "[DONE]", "response.completed", "response.incomplete"}

func oneStream(client *http.Client, url, key, body string) bool {
	request, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return err == nil && response.StatusCode == 200 &&
		slices.ContainsFunc(endings[:], func(e string) bool { return strings.Contains(string(text), e) })
}

// activateSlow makes the slowest module active in a slot that the node takes: with
// twice the rounds it is refused for the time or the ticks that trying it takes.
func activateSlow(b *testing.B, operator *admin.Client, s extensions.Slot) {
	b.Helper()
	for rounds := int32(190_000_000); rounds > 1_000_000; rounds = rounds * 3 / 4 {
		m, err := operator.LoadModule(admin.NewModule{Wasm: slowModule(b, s, rounds)})
		if err != nil {
			continue
		}
		if _, err = operator.ActivateModule(m.Digest); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(rounds)/1e6, "Mrounds")
		return
	}
	b.Fatal("no slow module is taken")
}

// i64DivU is an instruction that takes long for a part of a tick.
const i64DivU = 0x80

// slowModule is a module whose every call takes so many rounds of a loop, each with
// a division; then it answers something usual.
func slowModule(b testing.TB, s extensions.Slot, rounds int32) []byte {
	m := &wasmtest.Module{}
	frame := framesIn(m)
	manifest := guest.Manifest{Name: "slow", Kind: string(s), Version: "1.0.0", ABI: "1.0", Ticks: guest.Ticks{Call: 200_000_000}}
	if s == extensions.SlotChat || s == extensions.SlotResponses {
		manifest.Kind, manifest.Protocol = "translator", string(s)
	}
	call := wasmtest.Asm().I32(rounds).Set(2).Loop(wasmtest.Void)
	call.I64(0x7fff_ffff_ffff_ffff).Get(2).Op(wasmtest.I64ExtendU, i64DivU, wasmtest.Drop)
	call.Get(2).I32(1).Op(wasmtest.I32Sub).Tee(2).BrIf(0).End()
	native := []byte(`{"model":"core-1.1-mini","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"hello"}]}`)
	line := abi.Line{Unit: "token", Tokens: 1, Price: 1000, Amount: 1000}
	for _, a := range []struct {
		op      abi.Op
		payload []byte
	}{
		{abi.OpRequest, abi.Translated{Body: native}.Append(nil)},
		{abi.OpEvents, abi.Written{Bytes: []byte(`data: {"end":"[DONE] response.completed"}` + "\n\n")}.Append(nil)},
		{abi.OpResponse, []byte(`{}`)}, {abi.OpError, []byte(`{"error":{}}`)},
		{abi.OpQuote, abi.Quote{Upper: 1000, Minimum: 1}.Append(nil)},
		{abi.OpCharge, abi.Charge{Total: 1000, Tier: 1, Lines: []abi.Line{line}}.Append(nil)},
		{abi.OpDecide, abi.Decision{}.Append(nil)},
	} {
		call.Get(0).I32(int32(a.op)).Op(wasmtest.I32Eq).If(wasmtest.Void).I64(frame(a.payload)).Op(wasmtest.Return).End()
	}
	call.I64(0)
	i32, i64 := wasmtest.I32, wasmtest.I64
	m.Func("abi", nil, []byte{i32}, nil, wasmtest.I32Const(abi.Version))
	m.Func("buf", []byte{i32}, []byte{i32}, nil, wasmtest.I32Const(128<<10))
	m.Func("init", []byte{i32}, []byte{i64}, nil, wasmtest.Asm().I64(frame(nil)))
	m.Func("call", []byte{i32, i32}, []byte{i64}, []byte{i32}, call)
	m.Memory(64, -1)
	text, err := json.Marshal(manifest)
	if err != nil {
		b.Fatal(err)
	}
	m.Custom("corenode.manifest", text)
	return m.Bytes()
}
