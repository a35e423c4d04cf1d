package cli

import (
	"github.com/spf13/cobra"

	"corenode/extensions/guest"
)

// CompileName is the command that a node runs to compile a module.
const CompileName = "compile"

func compileCommand() *cobra.Command {
	return &cobra.Command{
		Use: CompileName + " FOLDER", Short: "Compile a module for a node, which runs this by itself", Hidden: true,
		Example: "  corenode compile data/modules/cache < metered.wasm", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return guest.CompileModule(cmd.InOrStdin(), args[0], cmd.OutOrStdout())
		},
	}
}
