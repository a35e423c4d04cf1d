// Command corenode serves language models over the messages, chat completions
// and responses protocols. This package is the only wiring: it builds the parts and hands them to each
// other; none of them knows more of another than an interface it declares.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"corenode/node/cli"
)

// version is set by the build.
var version = "dev"

func main() {
	cmd, errs := root(), &utf8Writer{to: os.Stderr}
	cmd.SetOut(&utf8Writer{to: os.Stdout})
	cmd.SetErr(errs)
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(errs, "corenode:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "corenode",
		Short: "Serve language models over the messages and chat completions protocols",
		Long: `corenode serves language models over the messages, chat completions and
responses protocols, with accounts, limits, billing and Wasm modules, from one
binary with no configuration.

  corenode serve                       start a node on 127.0.0.1:8080, data in ./data
  corenode account create alice --balance 5.00
                                       make an account; prints its key once
  corenode model inspect model.gguf    look into a model file`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(serveCommand(), modelCommand(), versionCommand(), compileCommand())
	cmd.AddCommand(cli.Commands()...)
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, Example: "  corenode version",
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "corenode", version) },
	}
}
