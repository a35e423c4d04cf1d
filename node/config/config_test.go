package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/wasm/abi"
)

// everyKey lists all keys, those of a model once, by their last word and indent.
func everyKey(t reflect.Type, depth int) (keys []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		keys = append(keys, strings.Repeat("  ", depth)+field.Tag.Get("key")+":")
		switch field.Type.Kind() {
		case reflect.Struct:
			keys = append(keys, everyKey(field.Type, depth+1)...)
		case reflect.Map:
			keys = append(keys, everyKey(field.Type.Elem(), depth+2)...)
		}
	}
	return keys
}

func TestDigestTellsConfigurationsApart(t *testing.T) {
	one, same, other := Default(), Default(), Default()
	other.Limits.QueueRequestsMax++
	if one.Digest() != same.Digest() || one.Digest() == other.Digest() || len(one.Digest()) != 12 {
		t.Errorf("%s, %s, %s", one.Digest(), same.Digest(), other.Digest())
	}
}

// TestDigestLeavesOutWhatIsANodesOwn: nodes of one cluster that differ in their addresses and in where their files are, as they
// have to, are alike.
func TestDigestLeavesOutWhatIsANodesOwn(t *testing.T) {
	one, other := Default(), Default()
	other.Listen, other.DataDir, other.Modules.CacheDir, other.Store.PasswordFile = "10.0.0.2:80", "/srv/two", "/srv/cache", "/srv/password"
	other.Server.TLSCertificate, other.Server.TLSKey = "/srv/two.pem", "/srv/two.key"
	other.Admin.Listen, other.Admin.TokenFile = "10.0.0.2:81", "/srv/token"
	other.Admin.TLSCertificate, other.Admin.TLSKey = "/srv/admin.pem", "/srv/admin.key"
	other.Cluster.Listen, other.Cluster.Address = "10.0.0.2:82", "two:82"
	was := *other
	if one.Digest() != other.Digest() {
		t.Errorf("%s and %s", one.Digest(), other.Digest())
	}
	if !reflect.DeepEqual(&was, other) {
		t.Errorf("a look changed it to %+v", other)
	}
	if other.Cluster.ShareModels = []string{allModels}; one.Digest() == other.Digest() {
		t.Error("what nodes have in common is left out")
	}
	for _, key := range own {
		if !slices.ContainsFunc(leavesOf(one), func(l leaf) bool { return l.key == key }) {
			t.Errorf("%s is left out, and is no key", key)
		}
	}
}

func TestReferenceIsTheDefaults(t *testing.T) {
	got, _, problems := build(Reference(), Sources{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if want := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("reference gives\n%+v, want\n%+v", got, want)
	}
	keys := everyKey(reflect.TypeFor[Config](), 0)
	if len(keys) < 40 {
		t.Fatalf("found only the keys %v", keys)
	}
	for _, key := range keys {
		// A key that has no default stands in a comment at its place.
		if found := regexp.MustCompile(`(?m)^` + strings.Repeat(" ", len(key)-len(strings.TrimLeft(key, " "))) + `(# )?` +
			strings.TrimLeft(key, " ")).Match(reference); !found {
			t.Errorf("reference.yaml does not show %q", key)
		}
	}
	if (&Config{}).validate() == nil || Default().validate() != nil {
		t.Error("validate finds nothing wrong with nothing, or something with the defaults")
	}
}

func TestNothingSetIsTheDefaults(t *testing.T) {
	for _, text := range []string{"", "\n# only a comment\n", "limits:\n", "{}"} {
		got, _, problems := build([]byte(text), Sources{Environment: []string{"CORENODE_PORT=tcp://10.0.0.1:80", "HOME=/x"}})
		if len(problems) > 0 || !reflect.DeepEqual(got, Default()) {
			t.Errorf("%q: %+v, %v", text, got, problems)
		}
	}
}

func TestLaterSourcesWin(t *testing.T) {
	file := `
listen: 127.0.0.1:1
data_dir: /from/file
limits: {queue_timeout: 1s, body_bytes_max: 1MiB}
models:
  core-1.1: {path: file.gguf, prices: {output: 3}}
  other:
    engine: instant
    prices: {input: "0.001", cached_input: "0", output: 1.5}
    sampling: {temperature: 0.7, top_k: 20}
    speculation: off
`
	c, _, problems := build([]byte(file), Sources{
		Environment: []string{"CORENODE_LISTEN=127.0.0.1:2", "CORENODE_LIMITS_QUEUE_TIMEOUT=2s"},
		Flags:       map[string]string{"listen": "127.0.0.1:3"},
		Models:      []string{"core-1.1=flag.gguf", "new=a=b.gguf"},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if c.Listen != "127.0.0.1:3" || c.DataDir != "/from/file" || c.Limits.QueueTimeout != 2*time.Second || c.Limits.BodyBytesMax != 1<<20 {
		t.Errorf("%+v", c)
	}
	core, other, added := c.Models["core-1.1"], c.Models["other"], c.Models["new"]
	if len(c.Models) != 3 || core.Path != "flag.gguf" || core.ContextLength != 0 ||
		core.Prices.Rates() != (abi.Prices{Input: 240, Cached: 24, Output: 3000}) {
		t.Errorf("core-1.1: %+v of %d models", core, len(c.Models))
	}
	if other.Engine != EngineInstant || *other.Sampling.Temperature != 0.7 || *other.Sampling.TopK != 20 || other.Sampling.TopP != nil ||
		other.Prices != (Prices{1, 0, 1500}) || other.KV.PageTokens != 32 || other.Speculation != SpeculationOff ||
		core.Speculation != SpeculationAuto {
		t.Errorf("other: %+v", other)
	}
	if added.Path != "a=b.gguf" || added.Prices != (Prices{240, 24, 3000}) {
		t.Errorf("new: %+v", added)
	}
	file = "models: {other: {engine: instant, prices: {input: 1, cached_input: 1, output: 1}}}"
	c, _, problems = build([]byte(file), Sources{Models: []string{"new=b.gguf"}})
	if len(problems) > 0 || c.Models["new"].Prices != (Prices{240, 24, 2400}) {
		t.Errorf("new without core-1.1: %+v, %v", c.Models["new"], problems)
	}
}

// TestTrustedKeys: a list in a file, commas outside one.
func TestTrustedKeys(t *testing.T) {
	a, b := strings.Repeat("A", 43)+"=", strings.Repeat("B", 42)+"A="
	for _, c := range []struct {
		text        string
		environment []string
		want        int
	}{
		{"modules: {trusted_keys: [" + a + "]}", nil, 1},
		{"modules:\n  trusted_keys:\n    - " + a + "\n    - " + b, nil, 2},
		{"", []string{"CORENODE_MODULES_TRUSTED_KEYS=" + a + ", " + b}, 2},
		{"modules: {trusted_keys: [" + a + "]}", []string{"CORENODE_MODULES_TRUSTED_KEYS="}, 0},
	} {
		got, _, problems := build([]byte(c.text), Sources{Environment: c.environment})
		if len(problems) > 0 || len(got.Modules.Keys()) != c.want || len(got.Modules.TrustedKeys) != c.want {
			t.Errorf("%q %v: %+v, %v", c.text, c.environment, got.Modules, problems)
		}
	}
	_, _, problems := build([]byte("modules: {trusted_keys: "+a+"}"), Sources{File: "c.yaml"})
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "want a list") {
		t.Errorf("a key that is no list: %v", problems)
	}
}

// TestCORSOrigins: what browsers send is taken, and no key means none.
func TestCORSOrigins(t *testing.T) {
	for _, c := range []struct {
		text        string
		environment []string
		want        []string
	}{
		{"", nil, nil},
		{"server: {cors_origins: ['*']}", nil, []string{"*"}},
		{"server: {cors_origins: ['https://chat.example', 'http://localhost:3000', 'http://[::1]:5173', 'chrome-extension://abcd']}", nil,
			[]string{"https://chat.example", "http://localhost:3000", "http://[::1]:5173", "chrome-extension://abcd"}},
		{"", []string{"CORENODE_SERVER_CORS_ORIGINS=https://a.example, https://b.example:8443"}, []string{"https://a.example", "https://b.example:8443"}},
	} {
		got, _, problems := build([]byte(c.text), Sources{Environment: c.environment})
		if len(problems) > 0 || !slices.Equal(got.Server.CORSOrigins, c.want) {
			t.Errorf("%q %v: %q, %v", c.text, c.environment, got.Server.CORSOrigins, problems)
		}
	}
}

// TestEveryProblemIsReportedAtOnce has one mistake per line; the comment of
// the line is what the report must say.
func TestEveryProblemIsReportedAtOnce(t *testing.T) {
	const text = `listen: nonsense           # c.yaml:1: listen is "nonsense", want host:port
lisen: x                   # c.yaml:2: lisen is not a known key; the top level has listen, data_dir
data_dir: ""               # c.yaml:3: data_dir is empty
admin:
  listen: 0.0.0.0:9        # c.yaml:5: admin.listen is "0.0.0.0:9", which other machines can reach
  allow_remote: yes        # c.yaml:6: admin.allow_remote is "yes", want true or false
log: {level: loud}         # c.yaml:7: log.level is "loud", want one of
limits:
  body_bytes_max: 32MOB    # c.yaml:9: limits.body_bytes_max is "32MOB", want bytes such as
  queue_timeout: 10        # c.yaml:10: limits.queue_timeout is "10", want a duration such as
  keepalive: -1s           # c.yaml:11: limits.keepalive is -1s, want 1ms to 24h
  queue_requests_max: 1.5   # c.yaml:12: limits.queue_requests_max is "1.5", want a whole number
  idle_timeout:            # limits.idle_timeout has no value
  drain_timeout: [1s]      # c.yaml:14: limits.drain_timeout is of type sequence, want a single value
  slow_reader_cancel: 1s   # c.yaml:15: limits.slow_reader_cancel is 1s, want at least limits.slow_reader_pause (30s)
  que: 1                   # c.yaml:16: limits.que is not a known key; limits has
models:
  core-1.1:
    engine: cuda           # c.yaml:19: models.core-1.1.engine is "cuda", which this binary does not have: want "cpu", or corenode-cuda
    prices: {input: "0.0001"} # c.yaml:20: models.core-1.1.prices.input is "0.0001", want dollars per million
    batch: {chunk_tokens: 100, gap_max: 0s, gap_stretch_max: -1} # c.yaml:21: models.core-1.1.batch.chunk_tokens is 100, want a multiple of 64
    kv: {dtype: f8, state_dtype: f16} # c.yaml:22: models.core-1.1.kv.dtype is "f8", want f16, f32 or q8
    sampling: {top_p: 2, min_p: .nan} # c.yaml:23: models.core-1.1.sampling.top_p is 2, want
  other:
    engine: gpu            # c.yaml:25: models.other.engine is "gpu", want cpu, cuda, upstream or instant
    threads: -1            # c.yaml:26: models.other.threads is -1, want 0 to 1024
    speculation: on        # c.yaml:27: models.other.speculation is "on", want auto or off
    output_max: 9          # models.other.prices.input is missing
    context_length: 8      # c.yaml:28: models.other.output_max is 9, want at most models.other.context_length (8)
  another: 3               # c.yaml:30: models.another is of type integer, want keys and values
  "a b": {step_time: 2s, kv: {state_dtype: bf16}} # c.yaml:31: models.a b is not a model id
modules:
  trusted_keys: [abc, [d]]   # c.yaml:33: modules.trusted_keys.0 is no public key, want 32 bytes in base64
  instances_max: -1        # c.yaml:34: modules.instances_max is -1, want 0 to 1024
  cpu_share: 0             # c.yaml:35: modules.cpu_share is 0, want 0.01 to 1
  canary_factor: .nan      # c.yaml:36: modules.canary_factor is ".nan", want a number
  canary_calls_min: 9      # c.yaml:37: modules.canary_calls_min is 9, want 10 to 100000
server:
  cors_origins:
    - "*"                  # c.yaml:40: server.cors_origins.0 is "*", which is every origin: want it alone
    - https://a.example/   # c.yaml:41: server.cors_origins.1 is "https://a.example/", want an origin as browsers send it
    - https://A.example    # c.yaml:42: server.cors_origins.2 is "https://A.example", want an origin as browsers send it
    - a.example            # c.yaml:43: server.cors_origins.3 is "a.example", want an origin as browsers send it
    - "null"               # c.yaml:44: server.cors_origins.4 is "null", which every file and every sandboxed frame sends
    - https://a.example:443 # c.yaml:45: server.cors_origins.5 is "https://a.example:443", want it without the scheme's own port
    - https://*.example    # c.yaml:46: server.cors_origins.6 is "https://*.example", want an origin as browsers send it
`
	_, _, problems := build([]byte(text), Sources{
		File:        "c.yaml",
		Environment: []string{"CORENODE_LIMITS_QUEUE_REQUESTS_MAX=many"},
		Models:      []string{"nopath"},
	})
	var report strings.Builder
	for _, p := range problems {
		report.WriteString(p.Error() + "\n")
	}
	want := []string{
		`CORENODE_LIMITS_QUEUE_REQUESTS_MAX: limits.queue_requests_max is "many", want a whole number`,
		`command line: --model is "nopath", want ID=PATH`,
		`models.core-1.1.sampling.min_p is ".nan", want a number`,
		`c.yaml:24: models.other.prices.input is missing`,
		`c.yaml:21: models.core-1.1.batch.gap_max is 0s, want 1ms to 1h`,
		`c.yaml:31: models.a b.step_time is 2s, want 0s to 1s`,
		`c.yaml:31: models.a b.step_time is set, but the engine is "cpu": want engine: instant`,
		`c.yaml:21: models.core-1.1.batch.gap_stretch_max is -1, want 0 to 1000`,
		`c.yaml:22: models.core-1.1.kv.state_dtype is "f16", want f32 or bf16`,
		`c.yaml:31: models.a b.kv.state_dtype is bf16, but the engine is cpu: it is for a GPU`,
	}
	for _, line := range strings.Split(text, "\n") {
		if _, comment, ok := strings.Cut(line, "# "); ok {
			want = append(want, comment)
		}
	}
	for _, part := range want {
		if !strings.Contains(report.String(), part) {
			t.Errorf("the report does not say %q", part)
		}
	}
	if t.Failed() {
		t.Logf("report:\n%s", report.String())
	}
}

func TestBrokenYAMLNamesTheLine(t *testing.T) {
	cases := map[string]string{
		"listen: [\n":               "c.yaml:",
		"listen: a\nlisten: b\n":    "c.yaml:2: not valid YAML",
		"listen: a\n---\nlisten: b": "a second document",
		"---\n---\nlisten: b":       "c.yaml:2: a second document",
		"- listen":                  "is of type sequence, want keys and values",
		"listen: &x a":              "listen is of type anchor, want a single value",
		"\x00":                      "c.yaml",
	}
	for text, want := range cases {
		_, _, problems := build([]byte(text), Sources{File: "c.yaml"})
		if len(problems) == 0 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%q: %v, want %q", text, problems, want)
		}
	}
}

// TestSharingIsSwitchedOff: false is none, in a variable as in the file, and wins over it there.
func TestSharingIsSwitchedOff(t *testing.T) {
	file := []byte("store: {url: postgres://u@h/d}\ncluster: {share_models: true}")
	for value, want := range map[string][]string{"true": {"true"}, "false": nil, "": nil, "core-1.1": {"core-1.1"}} {
		c, _, problems := build(file, Sources{Environment: []string{"CORENODE_CLUSTER_SHARE_MODELS=" + value}})
		if len(problems) > 0 || !slices.Equal(c.Cluster.ShareModels, want) {
			t.Errorf("%q: %q, %v", value, c.Cluster.ShareModels, problems)
		}
	}
}

// TestByteOrderMark: what some editors write before a file is no part of its first key.
func TestByteOrderMark(t *testing.T) {
	if c, _, problems := build([]byte("\ufefflisten: 127.0.0.1:5"), Sources{}); len(problems) > 0 || c.Listen != "127.0.0.1:5" {
		t.Errorf("%v, listen is %s", problems, c.Listen)
	}
}

func TestLoadReadsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "corenode.yaml")
	if _, _, err := Load(Sources{File: path}); err == nil {
		t.Error("an absent file was loaded")
	}
	if err := os.WriteFile(path, []byte("admin: {listen: 0.0.0.0:9, allow_remote: true}\nlog: {level: nope}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(Sources{File: path}); err == nil || err.Error() != path+`:2: log.level is "nope", want one of [debug info warn error]` {
		t.Errorf("error %v", err)
	}
	c, _, err := Load(Sources{File: path, Flags: map[string]string{"log.level": "warn"}})
	if err != nil || c.Admin.Listen != "0.0.0.0:9" || c.Log.Level != "warn" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestSizes(t *testing.T) {
	cases := map[string]Size{
		"0": 0, "1048576": 1 << 20, "8GiB": 8 << 30, "8 GiB": 8 << 30, "1kB": 1000, "3TB": 3e12, "5B": 5,
		"2MB": 2e6, "2GB": 2e9, "2KiB": 2 << 10, "2MiB": 2 << 20, "2TiB": 2 << 40, "8388607TiB": 8388607 << 40, "8388608TiB": -1,
		"": -1, "GiB": -1, "-1": -1, "1.5GiB": -1, "8gb": -1, "8G": -1, "9999999999TiB": -1, "0x10": -1,
	}
	for text, want := range cases {
		got, err := parseSize(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("parseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

// FuzzBuild shows that no file can crash a start, and that what is accepted is valid.
func FuzzBuild(f *testing.F) {
	f.Add(string(reference))
	f.Add("models: {a: {prices: {input: 1}}}")
	f.Add("limits: {<<: *x}")
	f.Add("? [a]\n: b")
	f.Fuzz(func(t *testing.T, text string) {
		c, _, problems := build([]byte(text), Sources{File: "c.yaml"})
		if len(problems) == 0 && c.validate() != nil {
			t.Errorf("accepted an invalid configuration: %v", c.validate())
		}
	})
}

// TestTemplateDate: a day is taken, anything else is a problem that names the key.
func TestTemplateDate(t *testing.T) {
	for day, good := range map[string]bool{"": true, "2026-01-31": true, "2026-02-30": false, "31.1.2026": false, "2026-01-31T00:00:00Z": false} {
		_, _, problems := build([]byte("models: {core-1.1: {template_date: '"+day+"'}}"), Sources{})
		named := len(problems) == 1 && strings.Contains(problems[0].Error(), "models.core-1.1.template_date is")
		if good && len(problems) > 0 || !good && !named {
			t.Errorf("%q: %v", day, problems)
		}
	}
}

func TestUpstreamProblems(t *testing.T) {
	prices := `prices: {input: "1", cached_input: "1", output: "1"}`
	for text, want := range map[string]string{
		`{flavour: vllm, urls: ["http://a:1", "https://b/x/"]}`:                                   "",
		`{flavour: corenode, dns: "nodes.local:8080", model: core-1.1}`:                           "",
		`{flavour: chat, urls: ["http://a:1"], tokenizer: t.gguf}`:                                "",
		`{flavour: vlm, urls: ["http://a:1"]}`:                                                    `upstream.flavour is "vlm", want one of chat, corenode, llama-server, messages, sglang, vllm`,
		`{flavour: chat, urls: ["http://a:1"]}`:                                                   "upstream.tokenizer is empty, but servers of flavor chat do not count tokens",
		`{flavour: chat, urls: ["http://a:1"], tokenizer: t.gguf, sampling: [top_k, ignore_eos]}`: "",
		`{flavour: llama-server, urls: ["http://a:1"], sampling: [min_tokens, topK]}`:             `upstream.sampling.1 is "topK", want one of top_k, min_p, `,
		`{flavour: messages, urls: ["http://a:1"], sampling: [seed, response_format, min_p]}`:     "",
		`{flavour: messages, urls: ["http://a:1"], sampling: [top_k]}`:                            `upstream.sampling.0 is "top_k", want one of response_format, `,
		`{flavour: corenode, urls: ["http://a:1"], sampling: [seed]}`:                             `upstream.sampling.0 is "seed", but servers of flavor corenode are told all`,
		`{flavour: vllm, urls: ["http://a:1"], sampling: [top_k]}`:                                `upstream.sampling.0 is "top_k", but servers of flavor vllm are told all`,
		`{flavour: vllm}`: "upstream.urls is empty",
		`{flavour: vllm, urls: ["http://a:1"], dns: "a:1"}`:                     `upstream.dns is set beside`,
		`{flavour: vllm, dns: "a"}`:                                             `upstream.dns is no host:port, want such as`,
		`{flavour: vllm, urls: ["http://a:1", "a:1"]}`:                          `upstream.urls.1 cannot be used: want a base URL`,
		`{flavour: vllm, urls: ["http://a:1/v1"]}`:                              `upstream.urls.0 cannot be used: want it without /v1`,
		`{flavour: vllm, urls: ["http://a:1", "http://a:1"]}`:                   "upstream.urls.1 is \"http://a:1\", which is there twice",
		`{flavour: vllm, urls: ["http://a:1"], verify: no, connections_max: 0}`: `upstream.verify is "no", want refuse or count`,
		`{flavour: vllm, urls: ["http://a:1"], stall_timeout: 1ms}`:             "upstream.stall_timeout is 1ms, want 1s to 24h",
	} {
		doc := "models:\n  far: {engine: upstream, context_length: 1000, " + prices + ", upstream: " + text + "}\n"
		_, _, problems := build([]byte(doc), Sources{File: "c.yaml"})
		var report strings.Builder
		for _, p := range problems {
			report.WriteString(p.Error() + "\n")
		}
		if want == "" && len(problems) > 0 || !strings.Contains(report.String(), want) {
			t.Errorf("%s: the report does not say %q:\n%s", text, want, &report)
		}
	}
	for doc, want := range map[string]string{
		"models: {far: {engine: upstream, upstream: {flavour: vllm, urls: [\"http://a:1\"]}, " + prices + "}}": "models.far.context_length is 0, want 1 to",
		"models: {far: {upstream: {flavour: vllm}, " + prices + "}}":                                           `models.far.upstream is set, but the engine is "cpu"`,
		"models: {far: {upstream: {key_file: k}, " + prices + "}}":                                             `models.far.upstream is set, but the engine is "cpu"`,
		"models: {far: {upstream: {verify: maybe}, " + prices + "}}":                                           `models.far.upstream is set, but the engine is "cpu"`,
	} {
		_, _, problems := build([]byte(doc), Sources{File: "c.yaml"})
		if len(problems) == 0 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%s: %v, want %q", doc, problems, want)
		}
	}
}

// TestPeerKeysShowNoSecret: what is no id of a key may be the key itself, which is refused and not repeated.
func TestPeerKeysShowNoSecret(t *testing.T) {
	for id, good := range map[string]bool{"key_0123456789abcdef0123": true, "sk-hidden": false, "hidden": false, "key_": false, "key_hidden sk-hidden": false} {
		_, _, problems := build([]byte("server: {peer_keys: ['"+id+"']}"), Sources{})
		if good != (len(problems) == 0) || strings.Contains(fmt.Sprint(problems), "hidden") {
			t.Errorf("%s: %v", id, problems)
		}
	}
}

// TestRefusalsShowNoSecret: what stands where it does not belong may be a secret, which whoever may look could read.
func TestRefusalsShowNoSecret(t *testing.T) {
	far := func(model string) string {
		return `models: {far: {engine: upstream, context_length: 1000, prices: {input: "1", cached_input: "1", output: "1"}, ` + model + "}}"
	}
	upstream := func(where string) string { return far("upstream: {flavour: vllm, " + where + "}") }
	for doc, key := range map[string]string{
		upstream(`urls: ["http://a:1", "http://u:hidden@b:1"]`):                   "models.far.upstream.urls.1",
		upstream(`urls: ["http://u:hidden@b:1/v1"]`):                              "models.far.upstream.urls.0",
		upstream(`urls: ["http://b:1?api_key=hidden"]`):                           "models.far.upstream.urls.0",
		upstream(`urls: ["http://b:1#hidden"]`):                                   "models.far.upstream.urls.0",
		upstream(`urls: ["http://u:hidden%zz@b:1"]`):                              "models.far.upstream.urls.0",
		upstream(`urls: ["sk-hidden"]`):                                           "models.far.upstream.urls.0",
		upstream(`urls: "http://u:hidden@b:1"`):                                   "models.far.upstream.urls",
		upstream(`dns: "http://u:hidden@b:1"`):                                    "models.far.upstream.dns",
		upstream(`dns: "b?api_key=hidden"`):                                       "models.far.upstream.dns",
		upstream(`urls: ["http://a:1"], dns: "u:hidden@b:1"`):                     "models.far.upstream.dns",
		far(`path: "http://u:hidden@b:1", upstream: {flavour: vllm, dns: "b:1"}`): "models.far.path",
		"modules: {trusted_keys: [hiddenhiddenhidden]}":                           "modules.trusted_keys.0",
		"admin: {operators: ['Hidden-hidden:viewer:eve']}":                        "admin.operators",
		"admin: {operators: ['eve:hidden:viewer']}":                               "admin.operators",
		"admin: {operators: ['hidden:eve:viewer']}":                               "admin.operators",
		"admin: {operators: ['hidden:viewer:eve']}":                               "admin.operators",
		"admin: {operators: ['eve:viewer:hidden']}":                               "admin.operators",
	} {
		_, _, problems := build([]byte(doc), Sources{})
		if len(problems) != 1 || problems[0].Key != key || strings.Contains(fmt.Sprint(problems), "hidden") {
			t.Errorf("%s: %v, want one of %s", doc, problems, key)
		}
	}
}

// TestStoreURLShowsNoSecret: a URL of a database that has a secret is refused, and not repeated.
func TestStoreURLShowsNoSecret(t *testing.T) {
	for url, good := range map[string]bool{"postgres://u@h/d": true, "postgres://u@h/d?sslmode=require": true, "postgres://u:hidden@h/d": false,
		"postgres://u@h/d?password=hidden": false, "postgres://u@h/d?sslpassword=hidden": false, "postgres://u@h/d?password=hidden;x": false,
		"mysql://u:hidden@h/d": false} {
		_, _, problems := build([]byte("store: {url: '"+url+"'}"), Sources{})
		if good != (len(problems) == 0) || strings.Contains(fmt.Sprint(problems), "hidden") {
			t.Errorf("%s: %v", url, problems)
		}
	}
}
