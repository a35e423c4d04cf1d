package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"corenode/node/admin"
	"corenode/node/store/sqlite"
)

func backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Copy the database and the modules while the node runs", Args: cobra.ExactArgs(1),
		Long: `Write a consistent copy of the database to a new file: accounts, hashed keys, the
ledger and the node's secrets. The Wasm modules, which charges name, go into the
new folder FILE.modules beside it, if there are any: keep both together. A running
node writes FILE itself: its user must be able to, where it is. Under the unit that
is below the data folder, and what ReadWritePaths= names. It goes on when this
command is ended, and FILE is there when it is whole. Of a folder without a node the copy
has the schema that is there: the program that served it restores the copy, too.`,
		Example: `  corenode backup ./corenode-2026-01-31.db
  corenode backup /var/lib/corenode/corenode-2026-01-31.db --data-dir /var/lib/corenode`,
	}
	dataDirFlag(cmd)
	cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = run(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
		path, err := filepath.Abs(args[0])
		if err != nil {
			return result{}, err
		}
		_, before := os.Lstat(path)
		done, err := c.Backup(path)
		if err == nil {
			err = wantHere(path, before == nil)
		}
		if err == nil {
			err = wantModules(path, cmd.Flag("data-dir").Value.String())
		}
		return printed(func(w io.Writer, done admin.BackedUp) {
			fmt.Fprintf(w, "The database is in %s, and the modules, if there are any, in %s.modules.\n", path, path)
			printMissing(w, done.ModulesMissing)
		})(done, err)
	}, opening{asItIs: true})
	return cmd
}

// wantHere refuses a backup that is not where the caller looks for it: the node writes it where it is itself.
// before says that a file was there when the node, which wants a new one, saw none.
func wantHere(path string, before bool) error {
	_, err := os.Lstat(path)
	switch {
	case before:
		err = errors.New("the file here is an older one")
	case !errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("the node has written %s, but not here: %w. It sees other folders, as in a container or under a unit, whose /tmp "+
		"is its own: remove it there, and name a file below the data folder or in one that ReadWritePaths= of the unit, or a volume, has",
		path, err)
}

// wantModules refuses a backup without the modules of the data folder: a node of an earlier version, as after the program
// was replaced and before its next start, copies the database alone.
func wantModules(path, dir string) error {
	beside, modules := path+".modules", filepath.Join(dir, sqlite.ModulesDir)
	if _, err := os.Lstat(beside); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	entries, err := os.ReadDir(modules)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the node has written %s, and whether modules belong to it is not known: %w", path, err)
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Type().IsRegular() }) {
		return nil
	}
	return fmt.Errorf("the node has written %s without the modules: it is of an earlier version than this command. "+
		"Copy %s to %s, where restore finds them, or make another backup when the node has been started again", path, modules, beside)
}

func restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Make a data folder of a backup", Args: cobra.ExactArgs(1),
		Long: `Put the database of a backup into a data folder that has none, and prove it, and the
modules in FILE.modules beside it. Modules that charges name and that are not
there, or that are damaged, are left out and listed. The database comes last: a restore that failed leaves none and can
be repeated. What requests that ran at the time of the backup held is settled at
the node's start.`,
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
		restored, err := sqlite.Restore(args[0], dir)
		if err != nil {
			return err
		}
		sayMigrated(cmd.ErrOrStderr(), filepath.Join(dir, sqlite.DatabaseName), restored.Migration)
		done, _ := printed(printRestored)(restored, nil)
		return show(cmd, done)
	}
	return cmd
}

func printRestored(w io.Writer, r sqlite.Restored) {
	if r.Before {
		fmt.Fprintln(w, "It was restored before: the database is the backup's already.")
	}
	printVerification(w, r.Verification)
	printMissing(w, r.ModulesMissing)
}

// printMissing lists modules that charges name and that have no file, or that are damaged.
func printMissing(w io.Writer, digests []string) {
	for _, digest := range digests {
		fmt.Fprintf(w, "Missing or damaged: the module %s. Charges that name it cannot be replayed or rated again without it.\n", digest)
	}
}
