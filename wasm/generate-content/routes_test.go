package generatecontent

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// TestRoutes: each route of the manifest is what its path says, below every prefix, also for
// a model whose id has a slash.
func TestRoutes(t *testing.T) {
	text, err := os.ReadFile("guest/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Routes []struct{ Path string } }
	if err := json.Unmarshal(text, &manifest); err != nil || len(manifest.Routes) != 2*routes+2*(routes-1) {
		t.Fatalf("%d routes, %v", len(manifest.Routes), err)
	}
	ends := [routes]string{":generateContent", ":streamGenerateContent", ":countTokens", "/models", "/{model}"}
	for i, r := range manifest.Routes {
		route := abi.Route{Index: i, Params: []abi.Pair{{Name: "model", Value: "m"}}}
		want := "m"
		if strings.Contains(r.Path, "{owner}") {
			route.Params = append(route.Params, abi.Pair{Name: "owner", Value: "o"})
			want = "o/m"
		}
		if of := routeOf(&route); !strings.HasSuffix(r.Path, ends[of]) || modelOf(&route) != want {
			t.Errorf("route %d, %s: %d of model %q", i, r.Path, of, modelOf(&route))
		}
	}
}

// TestKeepAlive: what stands in a stream while it says nothing is one more partial response, which
// says nothing. Clients take the stream apart at "data: " and empty lines, and know no comments.
func TestKeepAlive(t *testing.T) {
	text, err := os.ReadFile("guest/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ KeepAlive string }
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	event, ends := strings.CutSuffix(manifest.KeepAlive, "\n\n")
	event, begins := strings.CutPrefix(event, data)
	var quiet struct {
		Candidates []struct {
			Content struct {
				Parts []struct{ Text *string }
				Role  string
			}
			Index *int
		}
	}
	d := json.NewDecoder(bytes.NewReader([]byte(event)))
	d.DisallowUnknownFields()
	if err := d.Decode(&quiet); err != nil || !begins || !ends || strings.Contains(event, "\n") || len(quiet.Candidates) != 1 {
		t.Fatalf("%q: %v", manifest.KeepAlive, err)
	}
	c := quiet.Candidates[0]
	if c.Index == nil || c.Content.Role != "model" || len(c.Content.Parts) != 1 || c.Content.Parts[0].Text == nil || *c.Content.Parts[0].Text != "" {
		t.Errorf("%q is no partial response that says nothing", manifest.KeepAlive)
	}
}
