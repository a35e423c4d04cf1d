package cli

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"corenode/node/admin"
	"corenode/node/store/sqlite"
)

func backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Copy the database while the node runs", Args: cobra.ExactArgs(1),
		Long: `Write a consistent copy of the database to a new file: accounts, hashed keys, the
ledger and the node's secrets. Wasm modules are files in the folder modules
beside it; copy that folder too.`,
		Example: `  corenode backup /backups/corenode-2026-01-31.db`,
	}
	dataDirFlag(cmd)
	cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
		path, err := filepath.Abs(args[0])
		if err == nil {
			err = c.Backup(path)
		}
		return result{admin.Backup{Path: path}, func(w io.Writer) { fmt.Fprintf(w, "The database is in %s.\n", path) }}, err
	})
	return cmd
}

func restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Make a data folder of a backup", Args: cobra.ExactArgs(1),
		Long: `Put the database of a backup into a data folder that has none, and prove it. What
requests that ran at the time of the backup held is settled at the node's start.`,
		Example: `  corenode restore /backups/corenode-2026-01-31.db --data-dir ./restored`,
	}
	dataDirFlag(cmd)
	cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cmd.SilenceUsage = true
		dir, err := cmd.Flags().GetString("data-dir")
		if err != nil {
			return err
		}
		done, err := printed(printVerification)(sqlite.Restore(args[0], dir))
		if err != nil {
			return err
		}
		return show(cmd, done)
	}
	return cmd
}
