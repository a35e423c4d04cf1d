package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"corenode/node/cli"
	"corenode/node/store/postgrestest"
)

// moduleCache is where the nodes of all tests keep compiled modules: compiling
// them takes seconds, reading them back a fraction of one.
var moduleCache string

// sharedFiles is a folder of what several tests read and none changes.
var sharedFiles string

func TestMain(m *testing.M) {
	if file := os.Getenv(answersVariable); file != "" {
		os.Exit(serveRecorded(file))
	}
	dir, err := os.MkdirTemp("", "corenode-modules-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	moduleCache, sharedFiles = filepath.Join(dir, "modules"), filepath.Join(dir, "files")
	if err := errors.Join(os.Mkdir(moduleCache, 0o700), os.Mkdir(sharedFiles, 0o700)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	postgrestest.Stop()
	os.RemoveAll(dir)
	os.Exit(status)
}

// TestHelpHasExamples: the page says that every command has them.
func TestHelpHasExamples(t *testing.T) {
	commands := cli.Root(version, serve).Commands()
	if len(commands) == 0 {
		t.Fatal("no commands")
	}
	for len(commands) > 0 {
		cmd := commands[0]
		commands = append(commands[1:], cmd.Commands()...)
		if cmd.Example == "" {
			t.Errorf("%s --help has no example", cmd.CommandPath())
		}
	}
}
