package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"corenode/bench/proc"
	"corenode/node/admin"
)

// childVariable in the environment makes the test program the node itself, so
// that a test can kill a node without dying with it.
const childVariable = "CORENODE_TEST_CHILD"

func init() {
	if os.Getenv(childVariable) != "" {
		main()
		os.Exit(0)
	}
}

// slowModel and fastModel are what a child serves: one whose answers take their time
// and go on until max_tokens, and one that answers at once.
const slowModel, fastModel = "core-1.1", "core-1.1-mini"

// childNode is a node in a process of its own, which is started again and again
// on one data folder.
type childNode struct {
	t      testing.TB
	dir    string // of the config and the log
	data   string
	config string
	starts int
	proc   *proc.Child
	base   string // of the API
	admin  *admin.Client
}

// slowOfChild is what a slow model of a node in a process of its own is made of, as YAML: in a run that is long, as
// rounds in the environment says, one that computes, else one that takes its time and no processor's.
func slowOfChild(t *testing.T, rounds string) string {
	made := fmt.Sprintf("path: %q", endlessModel(t))
	if os.Getenv(rounds) == "" {
		made += fmt.Sprintf(", engine: instant, step_time: %v", stepTime)
	}
	return made
}

// newChild prepares a node on a data folder. limits is YAML, more of the section limits.
func newChild(t *testing.T, data, limits string) *childNode {
	t.Helper()
	dir := t.TempDir()
	c := &childNode{t: t, dir: dir, data: data, config: filepath.Join(dir, "corenode.yaml")}
	text := fmt.Sprintf(`
listen: 127.0.0.1:0
data_dir: %q
modules: {cache_dir: %q, allow_unsigned: true}
ledger: {spill_bytes: 1MiB}
limits: {prepare_concurrency: 256, %s}
models:
  %s: {%s, context_length: 262144, kv: {memory_bytes: 640MiB, state_memory_bytes: 64MiB},
    batch: {gap_max: 1h, gap_stretch_max: 0}} # all run at once, however slow the machine
  %s: {engine: instant, kv: {memory_bytes: 64MiB, state_memory_bytes: 64MiB}}
`, data, moduleCache, limits, slowModel, slowOfChild(t, "CORENODE_CRASH_ROUNDS"), fastModel)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(childVariable, "1")
	t.Cleanup(c.kill)
	return c
}

// start starts the node and waits until it serves.
func (c *childNode) start() {
	c.t.Helper()
	if err := c.tryStart(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *childNode) tryStart() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	c.starts++
	const base = "base URL"
	c.proc, c.base, err = proc.Start(c.t.Context(), proc.Spec{
		Name: fmt.Sprintf("node-%d", c.starts), Path: program, Args: []string{"serve", "--config", c.config}, Dir: c.dir,
		Env:     []string{childVariable + "=1"}, // a Child has no CORENODE_ of ours
		Timeout: 5 * time.Minute,                // under the race detector on a busy machine
		Ready: func(line string) (string, bool) {
			_, address, found := strings.Cut(line, base)
			return strings.TrimSpace(address), found
		}})
	if err != nil {
		return err
	}
	c.admin, err = admin.Dial(c.data)
	return err
}

// startAndKill starts the node and kills it a moment later, most likely before it serves.
func (c *childNode) startAndKill(after time.Duration) {
	c.t.Helper()
	program, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", "--config", c.config)
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	time.Sleep(after)
	_ = cmd.Process.Kill() // fails only when it has ended by itself, which the next start shows
	_ = cmd.Wait()         // says that it was killed
}

// kill ends the node like a power cut does and returns when it is gone.
func (c *childNode) kill() {
	if c.proc == nil {
		return
	}
	if err := syscall.Kill(c.proc.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		c.t.Errorf("kill: %v", err)
	}
	_ = c.proc.Stop() // it is gone; this waits for that
	c.proc = nil
}

// log is what the node wrote since its last start.
func (c *childNode) log() string {
	text, err := os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("node-%d.log", c.starts)))
	if err != nil {
		c.t.Error(err)
	}
	return string(text)
}

// account makes an account and returns its id and a key.
func (c *childNode) account(in admin.NewAccount) (id, key string) {
	c.t.Helper()
	made, err := c.admin.CreateAccount(in)
	if err != nil {
		c.t.Fatal(err)
	}
	return made.ID, made.Key
}
