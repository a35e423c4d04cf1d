package server

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestLogShowsUnknownPaths: who asks for a path that does not exist is found by the
// log, whatever the path holds, and no other line has one.
func TestLogShowsUnknownPaths(t *testing.T) {
	long := strings.Repeat("a", 200)
	for sent, want := range map[string]string{
		"/v1/v1/messages":           "/v1/v1/messages",
		"/v1/messages/batches?x=y":  "/v1/messages/batches",
		"http://node/v1/embeddings": "/v1/embeddings",
		"//v1/messages":             "//v1/messages",
		"/openai/deployments/gpt-4o-mini-2024-07-18/chat/completions": "/openai/deployments/gpt-4o-mini-2024-07-18/chat/completions",
		"/api/task-list":                "/api/task-list",
		"/%0a%22x":                      "/%0a%22x",
		"/a\"b\\c<\xc3\xa4":             "/a%22b%5Cc%3C%C3%A4",
		"/v1/" + goodKey:                "/v1/" + goodKey[:3] + "...",
		"/sk-ant-x/v1":                  "/sk-.../v1",
		"/v1/%73k-1234/x":               "/v1/%73.../x",
		"/v1/3f2a9c81d04be65798aa/x":    "/v1/3f2.../x",
		"/v1/eyJhbGciOi.eyJzdWIi.SflKx": "/v1/eyJ...",
		"/t/0190af3e-5c1b-7c3e-9a52-0c5f2b7d8e11/chat": "/t/019.../chat",
		"/" + long:                       "/" + long[:96] + "...",
		"/" + long[:99]:                  "/" + long[:99],
		"/" + strings.Repeat("\xff", 50): "/" + strings.Repeat("%FF", 32) + "...",
	} {
		n := start(t, Config{}, newFakeBackend(say("x")))
		n.raw(request("GET", sent, "", withKey))
		waitFor(t, "the line", func() bool { return strings.Contains(n.log.String(), "\n") })
		var v map[string]any
		if err := json.Unmarshal([]byte(n.log.String()), &v); err != nil {
			t.Fatal(err)
		}
		got, _ := v["path"].(string)
		if v["error"] != "path_not_found" || got != want || len(got) > loggedPathMax {
			t.Errorf("%q is logged as %q (%v), want %q", sent, got, v["error"], want)
		}
	}
	if got := loggedPath([]byte("/\x1b[0m\r\n\x00")); got != "/%1B%5B0m%0D%0A%00" { // HTTP does not let them through
		t.Errorf("control characters are logged as %q", got)
	}
	n := start(t, Config{}, newFakeBackend(say("x")))
	n.raw(request("GET", "/v1/models/PLANTED7", "", withKey))
	n.raw(request("POST", "/v1/models", "", withKey))
	waitFor(t, "the lines", func() bool { return strings.Count(n.log.String(), "\n") == 2 })
	if text := n.log.String(); strings.Contains(text, "PLANTED7") || strings.Contains(text, `"path"`) {
		t.Errorf("a path that exists is logged: %s", text)
	}
}
