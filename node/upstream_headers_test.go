package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"corenode/bench/fake"
	flavor "corenode/engine/upstream/wire"
	"corenode/node/config"
)

// TestVersionHeadersReachTheServers: what a client says of the protocol's version goes along to
// servers of the messages protocol, each line as it came, with counts as with answers; to no others.
// An empty line says nothing and stays.
func TestVersionHeadersReachTheServers(t *testing.T) {
	answer := func(int, []byte) fake.Script { return fake.Script{Text: []string{"yes"}} }
	far, other := fake.New(t, flavor.Messages, answer), fake.New(t, flavor.VLLM, answer)
	n, base, key := startNode(t, func(cfg *config.Config) {
		withFake(cfg, slowModel, flavor.Messages, far)
		withFake(cfg, fastModel, flavor.VLLM, other)
	})
	awaitReplicas(t, n)
	headers := http.Header{"Anthropic-Version": {"nonsense"}, "Anthropic-Beta": {"one, two", "three"}, "Protocol-Version": {"2"}}
	for _, model := range []string{slowModel, fastModel} {
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
			body := `{"model":"` + model + `","max_tokens":4,"messages":[{"role":"user","content":"x"}]}`
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			q.Header = headers.Clone()
			q.Header.Set("X-Api-Key", key)
			q.Header.Set("Protocol-Beta", "")
			resp, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != http.StatusOK {
				t.Fatalf("%s at %s: status %d", path, model, resp.StatusCode)
			}
		}
	}
	for s, goes := range map[*fake.Server]bool{far: true, other: false} {
		counts, answers := s.Counts(), s.Seen()
		if len(counts) != 3 || len(answers) != 1 { // the answer's prompt is counted, too
			t.Fatalf("%s: %d counts, %d answers", s.Flavor, len(counts), len(answers))
		}
		if version := counts[0].Header.Get("Anthropic-Version"); (version != "") != goes { // of the first probe
			t.Errorf("%s: asked whether it counts in version %q", s.Flavor, version)
		}
		counts = counts[1:]
		for _, seen := range append(counts, answers...) {
			if lines, went := seen.Header["Protocol-Beta"]; went {
				t.Errorf("%s%s: Protocol-Beta is %q", s.Flavor, seen.Path, lines)
			}
			for name, lines := range headers {
				if got := seen.Header.Values(name); goes && !slices.Equal(got, lines) || !goes && len(got) > 0 {
					t.Errorf("%s%s: %s is %q", s.Flavor, seen.Path, name, got)
				}
			}
		}
	}
}
