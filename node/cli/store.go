package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"corenode/extensions"
	"corenode/node/config"
	"corenode/node/store"
	"corenode/node/store/postgres"
	"corenode/node/store/sqlite"
)

func storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "store", Short: "Move accounts, keys, the ledger and modules", Args: cobra.NoArgs,
		Long:    `Move what a data folder keeps, accounts, keys, the ledger and modules, into a database.`,
		Example: `  corenode store migrate --from ./data --to postgres://corenode@db.example/corenode`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(storeMigrateCommand())
	return cmd
}

// movedSuffix is what the database file is called after a move, so that no start takes it for the truth.
const movedSuffix = ".moved"

func storeMigrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "migrate", Short: "Move a data folder's rows into PostgreSQL", Args: cobra.NoArgs,
		Long: `Move accounts, keys, ledger, counters, sums, secrets, audit and modules of a data folder into
an empty PostgreSQL database, and prove the sums there: all of it or, with an error, none. The
node must be stopped, cleanly. Its folder stays the node's: its journal and copies of modules are in it. Its
database file gets the ending ` + movedSuffix + `. Start the node with store.url then.`,
		Example: `  corenode store migrate --from ./data --to postgres://corenode@db.example/corenode`,
	}
	cmd.Flags().String("from", dataFolder(), "data folder of the stopped node")
	cmd.Flags().String("to", "", "URL of the database, as in store.url")
	cmd.Flags().String("password-file", "", "file (0600) of the database's password, as in store.password_file")
	cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		from, errFrom := cmd.Flags().GetString("from")
		to, errTo := cmd.Flags().GetString("to")
		passwordFile, err := cmd.Flags().GetString("password-file")
		if err := errors.Join(errFrom, errTo, err); err != nil {
			return err
		}
		if to == "" {
			return errors.New("--to is missing: want the URL of a PostgreSQL database")
		}
		if problems := config.URLProblems(to, "--password-file"); len(problems) > 0 {
			return errors.New("--to " + strings.Join(problems, "; "))
		}
		cmd.SilenceUsage = true
		done, err := printed(printVerification)(moveFolder(from, to, passwordFile, cmd.ErrOrStderr()))
		if err != nil {
			return err
		}
		return show(cmd, done)
	}
	return cmd
}

// moveFolder moves the rows of a data folder into a database, and tells w how far it is.
func moveFolder(dir, url, passwordFile string, w io.Writer) (v store.Verification, err error) {
	if !hasDatabase(dir) {
		return v, fmt.Errorf("%s has no %s to move", dir, sqlite.DatabaseName)
	}
	password := postgres.PasswordOf("--password-file", passwordFile)
	if _, err := password(); err != nil {
		return v, err
	}
	from, err := openFolder(dir, opening{}, w) // its lock keeps the node from starting
	if err != nil {
		return v, err
	}
	defer from.Close()
	if err := wantNoSpilled(dir); err != nil {
		return v, err
	}
	moved := store.InCluster(dir) // by a move before, which may have gone through
	id, err := store.NodeID(dir)
	if err != nil {
		return v, err
	}
	to, err := postgres.Open(postgres.Config{URL: url, Password: password, Node: id})
	if err == nil {
		defer to.Close()
		if err = store.JoinCluster(dir, id); err == nil { // before the rows are there
			v, err = to.MoveFrom(withModules{from, filepath.Join(dir, sqlite.ModulesDir)}, movingTo(w))
		}
	}
	if errors.Is(err, postgres.ErrUnsure) || moved && err != nil {
		return v, fmt.Errorf("%w (if the rows are there already, move %s* away and start the node with store.url; "+
			"if the database is empty, move again; where no move ever came so far, remove node.id: "+
			"until then the folder's own are not used)", err, sqlite.DatabaseName)
	}
	if err != nil {
		return v, errors.Join(err, store.LeaveCluster(dir))
	}
	if err := from.Close(); err != nil {
		return v, err
	}
	path := filepath.Join(dir, sqlite.DatabaseName)
	return v, os.Rename(path, path+movedSuffix)
}

// movingTo shows a person how far a move is, and tells a file of each table that is there.
func movingTo(w io.Writer) func(postgres.Moving) {
	if isScreen(w) {
		draw := bar(w)
		return func(m postgres.Moving) { draw(m.Done, m.All) }
	}
	return func(m postgres.Moving) {
		if m.Whole {
			fmt.Fprintf(w, "%s: %d rows\n", m.Table, m.Rows)
		}
	}
}

// withModules is the rows of a data folder, with the modules of it.
type withModules struct {
	*sqlite.Store
	dir string
}

// Modules implements postgres.ModuleSource.
func (w withModules) Modules(visit func(store.ModuleFile) error) (state []byte, err error) {
	if state, err = extensions.FolderState(w.dir); err != nil {
		return nil, err
	}
	err = extensions.Files(w.dir, nil, func(digest string, wasm, signature, config []byte) error {
		return visit(store.ModuleFile{Digest: digest, Wasm: wasm, Signature: signature, Config: config})
	})
	return state, err
}

// wantNoSpilled refuses a folder whose journal has rows: they are not in the database yet. The
// folder is locked: no node writes more meanwhile.
func wantNoSpilled(dir string) error {
	n, err := store.SpilledRows(dir)
	if err == nil && n > 0 {
		err = fmt.Errorf("the spill journal has %d rows that are not in the database yet: start the node and stop it first", n)
	}
	return err
}
