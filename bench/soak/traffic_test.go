package soak

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"corenode/bench/proc"
)

// TestASampleIsDueWhileTheKeyIsReplaced: the command, which waits for the traffic's pause in the end, and the sample, which
// waits for the command, do not wait for each other.
func TestASampleIsDueWhileTheKeyIsReplaced(t *testing.T) {
	clients, err := newTraffic("http://127.0.0.1:1", "old", 1)
	if err != nil {
		t.Fatal(err)
	}
	m := &run{}
	m.mu.Lock() // a command runs
	sampled, replaced := make(chan error, 1), make(chan struct{})
	go func() { sampled <- m.still(clients, func() error { return nil }) }()
	time.Sleep(10 * time.Millisecond) // mostly it waits by then
	go func() {
		clients.setKey("new")
		close(replaced)
	}()
	select {
	case <-replaced:
	case <-time.After(time.Minute):
		t.Fatal("the key is never replaced")
	}
	m.mu.Unlock()
	if err := <-sampled; err != nil || clients.key != "new" {
		t.Errorf("%v, the key is %s", err, clients.key)
	}
}

// TestCommandsAreReadApart: what a command says beside its answer is in its error, and no part of the answer.
func TestCommandsAreReadApart(t *testing.T) {
	program := filepath.Join(t.TempDir(), "node")
	m := &run{o: Options{Node: program}, node: &proc.Node{}}
	for status, want := range map[string]string{"0": "", "3": "a remark"} {
		text := "#!/bin/sh\necho a remark >&2\necho '{\"key\": \"sk\"}'\nexit " + status + "\n"
		if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		said, err := m.command(t.Context(), "key", "create")
		if want == "" && (err != nil || said != `{"key": "sk"}`) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("status %s: it said %q, %v", status, said, err)
		}
	}
}
