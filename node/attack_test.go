package main

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/node/admin"
)

// TestAttackAdmin: what is sent to the admin API to have a module taken, or one of
// an operator's undone, is refused with what is wrong, and nothing changes: the
// operator's module serves on. extensions.TestAttacks has the other groups.
func TestAttackAdmin(t *testing.T) {
	n, _, _, operator := startWithModules(t, instantModels)
	mine := activate(t, operator, "billing-c", `{"fee_nano":7}`)
	before, err := operator.Modules()
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(n.cfg.DataDir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	wasm := base64.StdEncoding.EncodeToString(example(t, "admission-c"))
	short := mine.Digest[len("sha256:"):][:12]
	cases := []struct {
		name, method, path, body, token string
		status                          int
		says                            []string
	}{
		{"no token", "POST", "/modules", `{"wasm":"` + wasm + `"}`, "-", 401, []string{"token"}},
		{"a wrong token", "POST", "/modules", `{"wasm":"` + wasm + `"}`, "x", 401, []string{"token"}},
		{"no module", "POST", "/modules", `{}`, "", 400, []string{"wasm is missing"}},
		{"no base64", "POST", "/modules", `{"wasm":"!"}`, "", 400, []string{"wasm"}},
		{"no JSON", "POST", "/modules", `wasm`, "", 400, nil},
		{"an unknown key", "POST", "/modules", `{"wasm":"` + wasm + `","activate":true}`, "", 400, []string{"activate"}},
		{"a key twice", "POST", "/modules", `{"wasm":"AAAA","wasm":"` + wasm + `"}`, "", 400, []string{"wasm"}},
		{"no Wasm", "POST", "/modules", `{"wasm":"AAAA"}`, "", 400, []string{"module refused (parse): ", "build it again"}},
		{"a wrong signature", "POST", "/modules", `{"wasm":"` + wasm + `","signature":"AAAA"}`, "", 400,
			[]string{"module refused (signature): ", "corenode module sign"}},
		{"a configuration that is no object", "POST", "/modules", `{"wasm":"` + wasm + `","config":[1]}`, "", 400,
			[]string{"module refused (init): ", "correct the configuration"}},
		{"a configuration that it refuses", "POST", "/modules", `{"wasm":"` + wasm + `","config":{"color":"red"}}`, "", 400,
			[]string{"module refused (config): ", "correct the configuration"}},
		{"a name that is a path", "POST", "/modules/..%2F..%2Fadmin.token/activate", "", "", 404, []string{"no such module"}},
		{"a digest that is too short", "POST", "/modules/" + short[:5] + "/activate", "", "", 404, []string{"no such module"}},
		{"removing what serves", "DELETE", "/modules/" + short, "", "", 409, []string{"in use"}},
		{"removing what ships", "DELETE", "/modules/builtin:tariff@1", "", "", 409, []string{"part of the program"}},
		{"another configuration for what charged", "POST", "/modules", `{"wasm":"` + base64.StdEncoding.EncodeToString(example(t, "billing-c")) + `","config":{"fee_nano":0}}`, "", 400,
			[]string{"module refused (init): ", "raise the version in its manifest"}},
		{"a percent that is none", "POST", "/modules/" + short + "/canary", `{"percent":101}`, "", 400,
			[]string{"percent is 101, want 0 to 100"}},
		{"a percent below none", "POST", "/modules/" + short + "/shadow", `{"percent":-1}`, "", 400, []string{"percent is -1"}},
		{"a slot that is none", "POST", "/slots/root/rollback", "", "", 404, []string{"no such slot"}},
		{"a verb by GET", "GET", "/modules/" + short + "/activate", "", "", 405, nil},
	}
	for _, c := range cases {
		secret := strings.TrimSpace(string(token))
		if c.token != "" {
			secret = c.token
		}
		status, answer := adminCall(t, n, c.method, admin.Root+c.path, c.body, secret)
		if status != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, status, answer, c.status)
		}
		for _, part := range c.says {
			if !strings.Contains(answer, part) {
				t.Errorf("%s: %s does not say %q", c.name, answer, part)
			}
		}
	}
	after, err := operator.Modules()
	if err != nil || len(after) != len(before) {
		t.Fatalf("%d modules, before %d, %v", len(after), len(before), err)
	}
	for i := range after {
		if after[i].Digest != before[i].Digest || after[i].State != before[i].State {
			t.Errorf("%+v, before %+v", after[i], before[i])
		}
	}
}

// adminCall makes one call of the admin API as it is, without the client.
func adminCall(t *testing.T, n *node, method, path, body, token string) (status int, answer string) {
	t.Helper()
	header := http.Header{}
	if token != "-" {
		header.Set("Authorization", "Bearer "+token)
	}
	response, answer := fetch(t, method, "http://"+n.admin.Addr().String()+path, body, header)
	return response.StatusCode, answer
}
