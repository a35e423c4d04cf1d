package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"corenode/extensions"
	"corenode/extensions/guest"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/wasm/abi"
)

// diary is a module of a protocol of its own, below /diary, which turns every request
// into the same one of messages and answers in lines of JSON.
func diary(t *testing.T, stream bool, more map[abi.Op]string) []byte {
	t.Helper()
	return diaryWriting(t, "piece", stream, more)
}

// diaryWriting is diary with what each line of a stream says.
func diaryWriting(t *testing.T, text string, stream bool, more map[abi.Op]string) []byte {
	t.Helper()
	line := fmt.Sprintf("{%q:1}\n", text)
	answers := map[abi.Op]string{abi.OpModels: `{"models":[]}`, abi.OpCount: `{"count":1}`}
	maps.Copy(answers, more)
	m := guest.Manifest{Name: "diary", Kind: "translator", Protocol: "diary", Version: "1.0.0", ABI: "1.1", Routing: guest.Routing{
		Framing: guest.FramingNDJSON,
		Routes: []guest.Route{
			{Method: "POST", Path: "/diary/{model}:write", Op: guest.RouteGenerate},
			{Method: "POST", Path: "/diary/{model}:count", Op: guest.RouteCount},
			{Method: "GET", Path: "/diary/models", Op: guest.RouteModels}},
		Keys: []guest.Key{{Header: "x-diary-key"}, {Query: "key"}}, Statuses: map[string]int{"model_not_found": 410}}}
	return handmadeOf(t, m, diaryAsks(stream), line, line, answers)
}

// diaryAsks is what every request is turned into.
func diaryAsks(stream bool) []byte {
	return fmt.Appendf(nil, `{"model":"core-1.1","max_tokens":4,"stream":%v,"messages":[{"role":"user","content":"Say hello."}]}`, stream)
}

// diaryCall asks for a path of the module and gives the answer and its text.
func diaryCall(t *testing.T, method, url, header, key string) (*http.Response, string) {
	t.Helper()
	headers, body := http.Header{}, ""
	if method == "POST" {
		body = `{"say":"hello"}`
	}
	if header != "" {
		headers.Set(header, key)
	}
	return fetch(t, method, url, body, headers)
}

func loadDiary(t *testing.T, operator *admin.Client, wasm []byte) {
	t.Helper()
	m, err := operator.LoadModule(admin.NewModule{Wasm: wasm})
	if err != nil {
		t.Fatal(err)
	}
	if m, err = operator.ActivateModule(m.Digest); err != nil || m.State != extensions.StateActive {
		t.Fatalf("%+v, %v", m, err)
	}
}

// TestRoutedProtocol: the paths of a module are there while it is active. What a
// request on them used and cost is what the same request costs over messages.
func TestRoutedProtocol(t *testing.T) {
	n, base, key, operator := startWithModules(t, instantModels)
	if r, _ := diaryCall(t, "POST", base+"/diary/m:write", "x-diary-key", key); r.StatusCode != 404 {
		t.Errorf("before: %d", r.StatusCode)
	}
	for _, stream := range []bool{true, false} {
		loadDiary(t, operator, diary(t, stream, nil))
		r, text := diaryCall(t, "POST", base+"/diary/m:write?key="+key, "", "")
		contentType := map[bool]string{true: "application/x-ndjson", false: "application/json"}[stream]
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != contentType || stream && !strings.HasSuffix(text, `{"piece":1}`+"\n") {
			t.Errorf("stream %v: %d %q %q", stream, r.StatusCode, r.Header.Get("Content-Type"), text)
		}
		e := settled(t, n, r.Header.Get("X-Llm-Request-Id"))
		response, _ := fetch(t, "POST", base+"/v1/messages", string(diaryAsks(stream)), http.Header{"X-Api-Key": {key}})
		same := settled(t, n, response.Header.Get("X-Llm-Request-Id"))
		if e.Usage.Input() != same.Usage.Input() || e.Usage.Output != same.Usage.Output || e.Usage.Output != 4 ||
			-e.Amount != listed(n, e) || e.Amount == 0 || e.Provisional || e.Model != "core-1.1" {
			t.Errorf("stream %v: charged %+v, over messages %+v", stream, e, same)
		}
	}
	for path, want := range map[string]string{"/diary/models": `{"models":[]}`, "/diary/a%2fb:count": `{"count":1}`} {
		method := map[bool]string{true: "POST", false: "GET"}[strings.HasSuffix(path, "count")]
		if r, text := diaryCall(t, method, base+path, "X-Diary-Key", key); r.StatusCode != 200 || text != want {
			t.Errorf("%s: %d %q", path, r.StatusCode, text)
		}
	}
	if r, text := diaryCall(t, "GET", base+"/diary/models", "x-api-key", key); r.StatusCode != 401 {
		t.Errorf("a key where the protocol has none: %d %q", r.StatusCode, text)
	}
	small, err := operator.CreateAccount(admin.NewAccount{Name: "small", Balance: admin.Amount{USD: "1"}, Models: []string{"core-1.1-mini"}})
	if err != nil {
		t.Fatal(err)
	}
	if r, text := diaryCall(t, "POST", base+"/diary/m:write", "x-diary-key", small.Key); r.StatusCode != 410 {
		t.Errorf("a model that the account may not use: %d %q", r.StatusCode, text)
	}
	var metrics strings.Builder
	n.server.WriteMetrics(&metrics)
	for _, series := range []string{`{route="diary_generate",status="200",kind="ok"} 2`,
		`{route="diary_generate",status="410",kind="model_not_found"} 1`,
		`{route="diary_models",status="401",kind="unauthenticated"} 1`, `{route="diary_count",status="200",kind="ok"} 1`} {
		if !strings.Contains(metrics.String(), "corenode_requests_total"+series+"\n") {
			t.Errorf("no series %s", series)
		}
	}
	for range 2 { // to the first version, and to nothing
		if _, err := operator.Rollback("diary"); err != nil {
			t.Fatal(err)
		}
	}
	if r, _ := diaryCall(t, "GET", base+"/diary/models", "x-diary-key", key); r.StatusCode != 404 {
		t.Errorf("after: %d", r.StatusCode)
	}
}

// TestAttackRoutedGarbage: a module that answers listings and counts with garbage, or
// that breaks its lines, hurts its own paths, and what has no answer costs nothing.
func TestAttackRoutedGarbage(t *testing.T) {
	garbage := diary(t, false, map[abi.Op]string{abi.OpModels: `[`, abi.OpCount: "\xff", abi.OpResponse: `{"a":`})
	n, base, key, operator := serveBeforeIn(t, "diary", garbage, instantModels)
	balance := func() abi.Nano {
		a, err := n.store.Account("default")
		if err != nil {
			t.Fatal(err)
		}
		free, _, err := n.store.Balance(a.ID)
		if err != nil {
			t.Fatal(err)
		}
		return free
	}
	before := balance()
	for _, path := range []string{"GET /diary/models", "POST /diary/m:count"} {
		method, path, _ := strings.Cut(path, " ")
		r, text := diaryCall(t, method, base+path, "x-diary-key", key)
		if r.StatusCode != 503 || r.Header.Get("Retry-After") == "" || !json.Valid([]byte(text)) {
			t.Errorf("%s: %d %q", path, r.StatusCode, text)
		}
	}
	if all, err := operator.Modules(); err != nil || !slices.ContainsFunc(all, func(m extensions.Info) bool {
		return m.Name == "diary" && m.Faults["protocol"] >= 2
	}) {
		t.Errorf("no fault is counted: %+v, %v", all, err)
	}
	if balance() != before {
		t.Error("an answer that was none has cost something")
	}
	if _, err := operator.LoadModule(admin.NewModule{Wasm: diary(t, false, map[abi.Op]string{abi.OpModels: `{`, abi.OpCount: `x`})}); err == nil {
		t.Error("usual calls that give garbage were taken")
	}
	if status, answer, _ := wholeChat(t, base, key, `{"model":"core-1.1","max_tokens":4,"messages":[{"role":"user","content":"go"}]}`); status != 200 {
		t.Errorf("chat: %d %s", status, answer)
	}
}

// TestRoutedRestart: after a restart a path that was there is there: it is answered, or a
// 503 says when to try again, and never a 404.
func TestRoutedRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var key string
	t.Run("before", func(t *testing.T) {
		var operator *admin.Client
		var base string
		_, base, key, operator = startWithModules(t, func(cfg *config.Config) { instantModels(cfg); cfg.DataDir = dir })
		loadDiary(t, operator, diary(t, true, nil))
		if r, _ := diaryCall(t, "GET", base+"/diary/models", "x-diary-key", key); r.StatusCode != 200 {
			t.Fatalf("before: %d", r.StatusCode)
		}
	})
	n, err := start(sameConfig(dir, instantModels), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.stop() })
	base := "http://" + n.public.Addr().String()
	for ready := false; !ready; {
		select {
		case <-n.modules.Ready():
			ready = true
		default:
		}
		r, text := diaryCall(t, "GET", base+"/diary/models", "x-diary-key", key)
		away := r.StatusCode == 503 && r.Header.Get("Retry-After") != ""
		if r.StatusCode != 200 && (ready || !away) {
			t.Fatalf("ready %v: %d %q", ready, r.StatusCode, text)
		}
	}
}

// TestAttackRoutedKeyLeaks: a key in a query is in nothing that the node writes or
// shows: not its log, its metrics, its state, its answers, or a file of its data.
func TestAttackRoutedKeyLeaks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var key string
	var logged strings.Builder
	t.Run("serve", func(t *testing.T) {
		cfg := sameConfig(dir, instantModels)
		cfg.Log.Level = "debug"
		n, err := start(cfg, &logged)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.stop() })
		<-n.modules.Ready()
		operator, err := admin.Dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		account, err := operator.CreateAccount(admin.NewAccount{Name: "leaky", Balance: admin.Amount{USD: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		key = account.Key // of this account there is no file that has it
		loadDiary(t, operator, diary(t, true, nil))
		base, asks := "http://"+n.public.Addr().String(), 0
		for _, path := range []string{"POST /diary/m:write", "POST /diary/m:count", "GET /diary/models", "GET /diary/m:write", "POST /diary/none",
			"POST /diary/m:write/", "GET /diary//models", "PUT /diary/models", "POST /v1/messages", "GET /unknown"} {
			method, path, _ := strings.Cut(path, " ")
			for _, query := range []string{"?key=" + key, "?a=b&key=" + key + "x", "?key=" + key + "&key=" + key, "?KEY=" + key, "?k%65y=" + key + "#" + key} {
				r, text := diaryCall(t, method, base+path+query, "X-Trace", key)
				if asks++; strings.Contains(text+fmt.Sprint(r.Header), key) {
					t.Errorf("%s %s: the answer has the key: %q %v", method, path, text, r.Header)
				}
			}
		}
		if r, text := diaryCall(t, "GET", base+"/diary/models?key="+key, "", ""); r.StatusCode != 200 {
			t.Errorf("the key is none: %d %q", r.StatusCode, text)
		}
		var metrics strings.Builder
		n.writeModuleMetrics(&metrics)
		state, err := json.Marshal(n.tree.Inspect())
		if err != nil || asks < 40 || strings.Contains(metrics.String()+string(state), key) {
			t.Errorf("%d requests, %v; metrics or state have the key", asks, err)
		}
	})
	if text := logged.String(); strings.Contains(text, key) || strings.Count(text, `"diary`)+strings.Count(text, "request") < 40 {
		t.Errorf("the log of %d bytes has the key, or too little", len(text))
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), key) {
			t.Errorf("%s has the key", path)
		}
		return err
	})
	if err != nil || files < 4 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestRoutedSwap: a stream that runs ends on the module that it began with, also when
// its paths are gone meanwhile.
func TestRoutedSwap(t *testing.T) {
	_, base, key, operator := startWithModules(t, instantModels)
	loadDiary(t, operator, diaryWriting(t, "first", true, nil))
	var streams sync.WaitGroup
	defer streams.Wait()
	stop := make(chan struct{})
	var mixed, whole atomic.Int32
	for range 4 {
		streams.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, text := diaryCall(t, "POST", base+"/diary/m:write", "x-diary-key", key)
				switch one, two := strings.Contains(text, "first"), strings.Contains(text, "second"); {
				case r.StatusCode == 404 || r.StatusCode == 503:
				case r.StatusCode != 200 || one == two:
					mixed.Add(1)
					t.Logf("%d %q", r.StatusCode, text)
				default:
					whole.Add(1)
				}
			}
		})
	}
	for range 5 {
		for _, text := range []string{"second", "first"} {
			loadDiary(t, operator, diaryWriting(t, text, true, nil))
		}
		for range 2 {
			if _, err := operator.Rollback("diary"); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	streams.Wait()
	if mixed.Load() > 0 || whole.Load() == 0 {
		t.Errorf("%d streams are whole, %d are of two modules or failed", whole.Load(), mixed.Load())
	}
}
