package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPartial: what mistakes elsewhere leave of a key is known, and what they hide is not.
func TestPartial(t *testing.T) {
	const good = "listen: 127.0.0.1:9\ndata_dir: /d\nserver: {tls_certificate: a, tls_key: b}\n"
	variable := []string{"CORENODE_LISTEN=127.0.0.1:7"}
	byDefault := []string{"CORENODE_LISTEN_DEFAULT=127.0.0.1:6"}
	for name, c := range map[string]struct {
		file          string
		environment   []string
		unknown       string // of the keys below
		listen, wrong string
	}{
		"nothing":           {"", nil, "", "127.0.0.1:8080", ""},
		"valid":             {good, nil, "", "127.0.0.1:9", ""},
		"an unknown key":    {good + "no_such_key: 1\n", nil, "", "127.0.0.1:9", "no_such_key"},
		"a bad value":       {good + "limits: {queue_timeout: soon}\n", nil, "", "127.0.0.1:9", "limits.queue_timeout"},
		"its own":           {"listen: nowhere\n", nil, "listen", "", "listen"},
		"a null":            {"listen:\n", nil, "listen", "", "listen"},
		"no YAML":           {good + "limits: {\n", nil, "listen data_dir server.tls_certificate", "", "YAML"},
		"no YAML, variable": {good + "limits: {\n", variable, "data_dir server.tls_certificate", "127.0.0.1:7", "YAML"},
		"a default":         {"", byDefault, "", "127.0.0.1:6", ""},
		"its own, default":  {good, byDefault, "", "127.0.0.1:9", ""},
		"two variables":     {"", append(variable, byDefault...), "", "127.0.0.1:7", ""},
		"no YAML, default":  {good + "limits: {\n", byDefault, "listen data_dir server.tls_certificate", "", "YAML"},
		"a default is bad":  {"", []string{"CORENODE_LISTEN_DEFAULT=x"}, "listen", "", "CORENODE_LISTEN_DEFAULT"},
		"two documents":     {good + "---\n" + good, nil, "listen data_dir server.tls_certificate", "", "second document"},
		"a directive":       {"%YAML 1.2\n---\n" + good, nil, "", "127.0.0.1:9", ""},
		"directives of two": {"%YAML 1.2\n---\n" + good + "...\n%YAML 1.2\n---\n" + good, nil, "listen data_dir server.tls_certificate", "",
			"second document"},
		"no section":          {"server: [a]\n", nil, "server.tls_certificate", "127.0.0.1:8080", "server"},
		"half of a pair":      {"server: {tls_certificate: a}\n", nil, "", "127.0.0.1:8080", "server.tls_key"},
		"the other half":      {"server: {tls_key: a}\n", nil, "server.tls_certificate", "127.0.0.1:8080", "server.tls_certificate"},
		"a variable is wrong": {good, []string{"CORENODE_LISTEN=x"}, "listen", "", "CORENODE_LISTEN"},
	} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		from := Sources{File: file, Environment: c.environment}
		p := LoadPartial(from)
		var unknown []string
		for _, key := range []string{"listen", "data_dir", "server.tls_certificate"} {
			if !p.Known(key) {
				unknown = append(unknown, key)
			}
		}
		if got := strings.Join(unknown, " "); got != c.unknown {
			t.Errorf("%s: unknown are %q, want %q", name, got, c.unknown)
		}
		if p.Known("listen") && p.Config.Listen != c.listen {
			t.Errorf("%s: listen is %q, want %q", name, p.Config.Listen, c.listen)
		}
		_, _, err := Load(from)
		if (err == nil) != (p.Err() == nil) || err != nil && (err.Error() != p.Err().Error() || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %v, and Load says %v; want it to name %q", name, p.Err(), err, c.wrong)
		}
	}
	p := LoadPartial(Sources{File: filepath.Join(t.TempDir(), "none"), Environment: variable})
	if !p.Known("listen") || p.Known("data_dir") || p.Given("data_dir") || p.Err() == nil {
		t.Errorf("without its file: %+v", p)
	}
}

// TestLoadModels: what a node has from elsewhere than its file is no matter of its prices. What would leave one at its default is.
func TestLoadModels(t *testing.T) {
	const priced = "models: {m: {engine: instant, prices: {input: 1, cached_input: 2, output: 3}}}\n"
	for text, wrong := range map[string]string{
		priced: "",
		"server: {tls_certificate: a}\nmodels: {m: {engine: upstream, prices: {input: 1, cached_input: 2, output: 3}}}\n": "",
		"": "no key", "# none\n": "no key", "models: {}\n": "models is empty", priced + "modles: {}\n": "modles",
		"models: {m: {engine: instant, pricess: {input: 1}}}\n":                         "pricess",
		"models: {m: {engine: instant, prices: {input: 1, output: 3}}}\n":               "models.m.prices.cached_input",
		"models: {m: {prices: {input: free, cached_input: 1, output: 1}}}\n":            "models.m.prices.input",
		"limits: {queue_timeout: soon}\n" + priced:                                      "limits.queue_timeout",
		"models: {m: {prices: {input: 1, cached_input: 1, output: 1}}}\n---\n" + priced: "second document",
	} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		models, err := LoadModels(file)
		if wrong == "" && (err != nil || models["m"].Prices.Output != 3000) {
			t.Errorf("%q: %+v, %v", text, models, err)
		}
		if wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%q: %v, want it to name %q", text, err, wrong)
		}
	}
	if _, err := LoadModels(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there")
	}
}

// TestDefaultFolder: what a unit says of the folder is weaker than a file that names another than the reference does, and unknown is where
// a file that cannot be read may name one.
func TestDefaultFolder(t *testing.T) {
	byDefault := "CORENODE_DATA_DIR_DEFAULT=/of/unit"
	for _, c := range []struct{ file, variable, flag, want string }{
		{"", "", "", "/of/unit"}, {"listen: 127.0.0.1:9\n", "", "", "/of/unit"}, {string(Reference()), "", "", "/of/unit"},
		{"data_dir: /of/file\n", "", "", "/of/file"}, {"data_dir: data\n", "", "", "data"},
		{"", "CORENODE_DATA_DIR=/of/variable", "", "/of/variable"}, {"", "CORENODE_DATA_DIR=./data", "", "./data"},
		{"data_dir: /of/file\n", "CORENODE_DATA_DIR=/of/variable", "", "/of/variable"}, {"", "", "/of/flag", "/of/flag"},
		{"data_dir: [a]\n", "", "", "unknown"}, {"limits: {\n", "", "", "unknown"}, {"limits: {\n", "", "/of/flag", "/of/flag"},
	} {
		from := Sources{File: filepath.Join(t.TempDir(), "c.yaml"), Environment: []string{byDefault, c.variable}, Flags: map[string]string{}}
		if c.flag != "" {
			from.Flags["data_dir"] = c.flag
		}
		if err := os.WriteFile(from.File, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		p, got := LoadPartial(from), "unknown"
		if p.Known("data_dir") {
			got = p.Config.DataDir
		}
		if got != c.want || !p.Given("data_dir") {
			t.Errorf("%.40q, %q, %q: the folder is %s (given: %v), want %s", c.file, c.variable, c.flag, got, p.Given("data_dir"), c.want)
		}
	}
}
