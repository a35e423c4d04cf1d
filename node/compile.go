package main

import (
	"os"

	"corenode/node/cli"
)

// compileModules is the program with which a node compiles modules: this one.
// It is nil where nobody knows where that is.
func compileModules() []string {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{program, cli.CompileName}
}
