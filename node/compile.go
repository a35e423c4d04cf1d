package main

import (
	"os"

	"github.com/spf13/cobra"

	"corenode/extensions"
)

// compileName is the command that a node runs to compile a module.
const compileName = "compile-module"

// compileModules is the program with which a node compiles modules: this one.
// It is nil where nobody knows where that is.
func compileModules() []string {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{program, compileName}
}

func compileCommand() *cobra.Command {
	return &cobra.Command{
		Use: compileName + " FOLDER", Short: "Compile a module for a node, which runs this by itself", Hidden: true,
		Example: "  corenode compile-module data/modules/cache < metered.wasm", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			keepPrivate()
			return extensions.CompileModule(cmd.InOrStdin(), args[0], cmd.OutOrStdout())
		},
	}
}
