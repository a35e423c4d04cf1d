// Package cli is the command line: every command of the program. Those of
// accounts, keys, money and modules talk to the node that owns the data folder,
// or open the folder itself when none runs; nobody has to know which.
package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"corenode/node/config"
)

// Serve runs a node until a signal ends it. The greeting goes to out.
type Serve func(from config.Sources, out, logTo io.Writer) error

// Root makes the program's command tree. Package main wires a node together, so
// it gives serve.
func Root(version string, serve Serve) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "corenode",
		Short: "Serve language models over the messages, chat completions and responses protocols",
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
	cmd.AddCommand(serveCommand(serve), modelCommand(), versionCommand(version), compileCommand(), healthCommand(),
		accountCommand(), keyCommand(), ledgerCommand(), requestsCommand(), topCommand(), whyCommand(), cacheCommand(), logsCommand(),
		configCommand(), drainCommand(), clusterCommand(),
		moduleCommand(), upstreamCommand(), backupCommand(), restoreCommand(), storeCommand(),
		operatorCommand(), auditCommand(), reloadCommand(), pricesCommand(), grafanaCommand(), alertsCommand())
	cmd.SetFlagErrorFunc(func(wrong *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, wrong.CommandPath())
	})
	sayUsage(cmd)
	return cmd
}

// sayUsage makes a command and those below it answer wrong arguments with what they want.
func sayUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			switch {
			case err == nil:
				return nil
			case cmd.HasSubCommands():
				return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
			}
			return fmt.Errorf("%w; want %s", err, cmd.UseLine())
		}
	}
	for _, below := range cmd.Commands() {
		sayUsage(below)
	}
}

func versionCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, Example: "  corenode version",
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "corenode", version) },
	}
}
