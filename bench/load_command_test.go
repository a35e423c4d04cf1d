package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"corenode/bench/result"
)

// answer is a chat server that says two words, and counts words as tokens.
func answer(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Stream   bool
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":2}`, len(strings.Fields(body.Messages[0].Content)))
	if !body.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":{"content":"two words"}}],%s}`, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, chunk := range []string{`{"choices":[{"delta":{"content":"two"}}]}`, `{"choices":[{"delta":{"content":" words"}}]}`, `{"choices":[],` + usage + `}`, "[DONE]"} {
		fmt.Fprintf(w, "data: %s\n\n", chunk)
		w.(http.Flusher).Flush()
	}
}

// command runs corebench and returns what it printed.
func command(t *testing.T, args ...string) (out, status string, err error) {
	return commandUntil(t.Context(), args...)
}

// commandUntil is command, interrupted when ctx ends.
func commandUntil(ctx context.Context, args ...string) (out, status string, err error) {
	var stdout, stderr bytes.Buffer
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	err = cmd.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

func TestLoadCompareAndSweep(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(in("key"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	target := []string{"--url", server.URL, "--protocol", "chat", "--key", "@" + in("key"), "--input", "40", "--output", "2"}
	out, status, err := command(t, append([]string{"load", "--clients", "2", "--count", "50", "--repeat", "2", "--json", in("a.json"), "--csv", in("a.csv"), "--html", in("a.html")}, target...)...)
	if err != nil || !strings.Contains(out, "TTFT") || strings.Contains(status+out, "\x1b") || status != "" {
		t.Fatalf("%v\n%s\n%q", err, out, status)
	}
	f, err := result.ReadFile(in("a.json"))
	if err != nil || len(f.Runs) != 2 || f.Runs[1].Requests.Succeeded != 50 || f.Runs[1].Tokens.InputMean != 40 ||
		f.Conditions.TokensPerWord != 1 || f.Conditions.Seed == 0 || f.Conditions.ErrorPauseS != 0.1 || f.Conditions.RetryAfterMaxS != 10 {
		t.Fatalf("%v, %+v", err, f.Conditions)
	}
	if lines, err := os.ReadFile(in("a.csv")); err != nil || bytes.Count(lines, []byte("\n")) != 101 {
		t.Errorf("%v, %d lines", err, bytes.Count(lines, []byte("\n")))
	}
	if page, err := os.ReadFile(in("a.html")); err != nil || !bytes.Contains(page, []byte("<canvas")) {
		t.Errorf("the page: %v", err)
	}

	if out, _, err = command(t, "compare", in("a.json"), in("a.json"), "--fail-if", "ttft_p99>1.1"); err != nil || !strings.Contains(out, "ttft_p99") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err = command(t, "compare", in("a.json"), in("a.json"), "--fail-if", "requests_per_s<=1"); !errors.Is(err, errThreshold) || !strings.Contains(out, "crossed") {
		t.Errorf("%v\n%s", err, out)
	}

	out, _, err = command(t, append([]string{"sweep", "--rates", "200,400", "--count", "20", "--pause", "0s", "--json", in("s.json"), "--html", in("s.html")}, target...)...)
	if err != nil || !strings.Contains(out, "knee: ") {
		t.Errorf("%v\n%s", err, out)
	}
	target[5] = "nobody's" // the key, which the calibration would find out
	out, _, err = command(t, append([]string{"sweep", "--clients", "1,2", "--count", "2", "--pause", "0s", "--error-pause", "0s", "--tokens-per-word", "1"}, target...)...)
	if !errors.Is(err, errNothing) || !strings.Contains(out, "knee: none") {
		t.Errorf("a sweep of refusals: %v\n%s", err, out)
	}
	if _, _, err = command(t, "compare", in("a.json"), in("s.json")); err == nil || !strings.Contains(err.Error(), "schema") {
		t.Errorf("another layout was compared: %v", err)
	}
}

// Lines that cannot be written lose no more than themselves, as a page or a file that cannot be written does.
func TestResultOutlivesItsLines(t *testing.T) {
	const full = "/dev/full" // every write fails
	if _, err := os.Stat(full); err != nil {
		t.Skip(err)
	}
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	dir := t.TempDir()
	json, html := filepath.Join(dir, "a.json"), filepath.Join(dir, "a.html")
	out, _, err := command(t, "load", "--url", server.URL, "--protocol", "chat", "--key", "secret", "--clients", "1", "--count", "2",
		"--csv", full, "--json", json, "--html", html)
	if err == nil || !strings.Contains(err.Error(), "write "+full) || !strings.Contains(out, "TTFT") {
		t.Errorf("error %v\n%s", err, out)
	}
	if f, err := result.ReadFile(json); err != nil || f.Runs[0].Requests.Succeeded != 2 {
		t.Errorf("the result: %v", err)
	}
	if page, err := os.ReadFile(html); err != nil || !bytes.Contains(page, []byte("<canvas")) {
		t.Errorf("the page: %v", err)
	}
}

// A level that cannot be is told before the others are measured.
func TestSweepChecksAllLevelsFirst(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(w, r)
	}))
	defer server.Close()
	_, _, err := command(t, "sweep", "--url", server.URL, "--protocol", "chat", "--key", "secret", "--clients", "1,0", "--count", "1", "--pause", "0s")
	if err == nil || !strings.Contains(err.Error(), "level 0") || asked.Load() != 0 {
		t.Errorf("error %v after %d requests", err, asked.Load())
	}
}

// Interrupted between two levels a sweep reports those that ran: the next one would be a level without a request.
func TestSweepInterruptedInItsPause(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, r)
		if asked.Add(1) == 2 { // the last one of the first level; its end is a moment away
			time.AfterFunc(3*time.Second, interrupt)
		}
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "s.json")
	out, _, err := commandUntil(ctx, "sweep", "--url", server.URL, "--protocol", "chat", "--key", "secret", "--clients", "1,2,3", "--count", "2",
		"--tokens-per-word", "1", "--pause", "1h", "--json", path)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var s result.Sweep
	if b, err := os.ReadFile(path); err != nil || json.Unmarshal(b, &s) != nil || len(s.Points) != 1 || s.Points[0].At != 1 {
		t.Errorf("%v, levels %+v\n%s", err, s.Points, out)
	}
}

func TestLoadsThatCannotBegin(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	for want, args := range map[string][]string{
		"who are you": {"--clients", "1", "--key", "wrong"},
		"exactly one": {"--clients", "1", "--rate", "5", "--key", "secret"},
		"lengths":     {"--clients", "1", "--input", "many"},
		"objective":   {"--clients", "1", "--slo", "fast"},
		"2 turns":     {"--clients", "1", "--think", "1s"},
		"tokens per":  {"--clients", "1", "--template-tokens", "5"},
		"protocol":    {"--clients", "1", "--protocol", "soap"},
	} {
		_, _, err := command(t, append([]string{"load", "--url", server.URL, "--protocol", "chat", "--count", "1"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one with %q", args, err, want)
		}
	}
}
