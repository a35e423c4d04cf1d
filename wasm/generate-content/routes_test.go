package generatecontent

import (
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
