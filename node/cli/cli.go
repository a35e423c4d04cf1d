// Package cli is the command line: every command of the program. Those of
// accounts, keys, money and modules talk to the node that owns the data folder,
// or open the folder itself when none runs; nobody has to know which.
package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"corenode/node/config"
)

// Serve runs a node until a signal ends it. The greeting goes to out.
type Serve func(from config.Sources, out, logTo io.Writer) error

// Root makes the program's command tree. Package main wires a node together, so
// it gives serve, and commands that need more of it.
func Root(version string, serve Serve, more ...*cobra.Command) *cobra.Command {
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

		PersistentPreRunE: refuseEmpty,
	}
	cmd.AddCommand(serveCommand(serve), modelCommand(), versionCommand(version), compileCommand(), healthCommand(),
		accountCommand(), keyCommand(), ledgerCommand(), requestsCommand(), topCommand(), whyCommand(), cacheCommand(), logsCommand(),
		configCommand(), drainCommand(), clusterCommand(),
		moduleCommand(), upstreamCommand(), backupCommand(), restoreCommand(), storeCommand(),
		operatorCommand(), auditCommand(), reloadCommand(), pricesCommand(), grafanaCommand(), alertsCommand())
	cmd.AddCommand(more...)
	cmd.SetFlagErrorFunc(func(wrong *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, wrong.CommandPath())
	})
	sayUsage(cmd)
	return cmd
}

// meansEmpty marks a flag of which "" says something.
const meansEmpty = "empty"

// refuseEmpty refuses flags and arguments that were typed with nothing. What a shell asks to complete may be nothing yet.
func refuseEmpty(cmd *cobra.Command, args []string) error {
	if strings.HasPrefix(cmd.Name(), cobra.ShellCompRequestCmd) {
		return nil
	}
	return errors.Join(emptyFlags(cmd), emptyArgument(cmd, args))
}

// emptyFlags refuses flags that were typed with nothing, as of a variable that is not set: to leave such a flag out does
// what nobody asked for, such as a list of one account's rows that has everybody's.
func emptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" && f.Annotations[meansEmpty] == nil {
			err = errors.Join(err, fmt.Errorf(`--%s is "", as of a variable that is not set: give it a value, or leave it out`, f.Name))
		}
	})
	return err
}

// emptyArgument refuses the same of arguments.
func emptyArgument(cmd *cobra.Command, args []string) error {
	if i := slices.Index(args, ""); i >= 0 {
		return fmt.Errorf(`argument %d is "", as of a variable that is not set; want %s`, i+1, cmd.UseLine())
	}
	return nil
}

// mayBeEmpty says that "" means something for flags of a command.
func mayBeEmpty(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		_ = cmd.Flags().SetAnnotation(name, meansEmpty, []string{"true"}) // it fails only for a flag that is not there
	}
}

// modelIDs are the models of a flag, separated by commas with or without spaces. "" is a list of none.
type modelIDs []string

// Set implements pflag.Value. A flag that is given again adds to what is there.
func (m *modelIDs) Set(text string) error {
	if *m == nil {
		*m = modelIDs{}
	}
	if text == "" {
		return nil
	}
	for id := range strings.SplitSeq(text, ",") {
		*m = append(*m, strings.TrimSpace(id))
	}
	return nil
}

// String implements pflag.Value.
func (m *modelIDs) String() string { return strings.Join(*m, ",") }

// Type implements pflag.Value. It is what help calls the value.
func (m *modelIDs) Type() string { return "ids" }

// sayUsage makes a command and those below it answer wrong arguments with what they want.
func sayUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			switch {
			case err == nil:
				return nil
			case cmd.HasSubCommands():
				return fmt.Errorf("%w%s; see %s --help", err, meant(cmd, args), cmd.CommandPath())
			}
			return fmt.Errorf("%w; want %s", err, cmd.UseLine())
		}
	}
	for _, below := range cmd.Commands() {
		sayUsage(below)
	}
}

// meant names the commands below one that are spelled like what was typed.
func meant(cmd *cobra.Command, args []string) string {
	cmd.SuggestionsMinimumDistance = 2 // that of the root, as cobra has it
	like := cmd.SuggestionsFor(args[0])
	if len(like) == 0 {
		return ""
	}
	return ", did you mean " + strings.Join(like, " or ")
}

func versionCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs, Example: "  corenode version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "corenode", version)
			return err
		},
	}
}
