package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"corenode/node/admin"
	"corenode/node/store"
	"corenode/node/store/sqlite"
)

// dataFolder is the node's where no flag names one.
func dataFolder() string {
	return cmp.Or(os.Getenv("CORENODE_DATA_DIR"), os.Getenv("CORENODE_DATA_DIR_DEFAULT"), "./data")
}

// dataDirFlag adds --data-dir.
func dataDirFlag(cmd *cobra.Command) {
	cmd.PersistentFlags().String("data-dir", dataFolder(), "data folder of the node")
}

// group makes a command that only holds others.
func group(use, short, long, example string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	dataDirFlag(cmd)
	cmd.PersistentFlags().Bool("json", false, "print JSON, money as integers of nano-dollars")
	cmd.AddCommand(children...)
	return cmd
}

// action is what a command does with a client; its result is printed.
type action func(c *admin.Client, cmd *cobra.Command, args []string) (result, error)

// result prints itself for people, or as its JSON value. Where the value is
// pages, it prints itself both ways.
type result struct {
	value any
	text  func(w io.Writer)
}

// printed makes a result of what a verb of the client returns.
func printed[T any](text func(w io.Writer, value T)) func(T, error) (result, error) {
	return func(value T, err error) (result, error) {
		return result{value, func(w io.Writer) { text(w, value) }}, err
	}
}

// pages is a result that may be too long to hold: it is read while it is printed.
type pages func(w io.Writer, asJSON bool) error

// opening is how a data folder without a node is opened.
type opening struct {
	create bool // it need not be there
	asItIs bool // a schema of an older program stays
}

// existing runs an action on a data folder that must be there; orNew makes it.
func existing(do action) func(*cobra.Command, []string) error { return run(do, opening{}) }
func orNew(do action) func(*cobra.Command, []string) error    { return run(do, opening{create: true}) }

func run(do action, how opening) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		cmd.SilenceUsage = true // from here on the call was well formed
		dir, err := cmd.Flags().GetString("data-dir")
		if err != nil {
			return err
		}
		fresh := !hasDatabase(dir)
		client, hangUp, err := connect(dir, how, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if fresh && hasDatabase(dir) { // a node whose rows are elsewhere has no database here
			fmt.Fprintf(cmd.ErrOrStderr(), "%s is a new data folder. A node that runs on another one knows nothing of it.\n", dir)
		}
		defer func() { err = errors.Join(err, hangUp()) }()
		done, err := do(client, cmd, args)
		if err != nil {
			return err
		}
		return show(cmd, done)
	}
}

func show(cmd *cobra.Command, done result) error {
	asJSON, err := cmd.Flags().GetBool("json")
	if err != nil {
		return err
	}
	if print, ok := done.value.(pages); ok {
		return print(cmd.OutOrStdout(), asJSON)
	}
	if asJSON {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		return e.Encode(done.value)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	done.text(plainWriter{w})
	return w.Flush()
}

// shownOnce is a result that says what nobody can be told again. Where it cannot be printed the error says that it was not, and what
// to do.
func shownOnce(cmd *cobra.Command, done result, otherwise string) result {
	return result{value: pages(func(io.Writer, bool) error {
		signal.Ignore(syscall.SIGPIPE) // it is an error of the write
		if err := show(cmd, done); err != nil {
			return fmt.Errorf("%s: %w", otherwise, err)
		}
		return nil
	})}
}

// although is an error that says what is missing of what was done. A program that asked for JSON gets that all the same.
func (r result) although(cmd *cobra.Command, err error) error {
	if asJSON, wrong := cmd.Flags().GetBool("json"); wrong == nil && asJSON {
		return errors.Join(show(cmd, r), err)
	}
	return err
}

// connect reaches the node that owns dir, or opens dir when none runs. It tells errs of a migration.
func connect(dir string, how opening, errs io.Writer) (c *admin.Client, hangUp func() error, err error) {
	c, err = admin.Dial(dir)
	if err == nil {
		return c, func() error { return nil }, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, nil, fmt.Errorf("%w: run it as the user of the node, or as root", err)
	}
	if !errors.Is(err, admin.ErrNoNode) {
		return nil, nil, err
	}
	has, inCluster := hasDatabase(dir), store.InCluster(dir)
	if inCluster || !how.create && !has { // any other is opened below, which waits for a command that has it for a moment
		if held, _ := store.Held(dir); held {
			return nil, nil, unanswered(fmt.Errorf("%w: %s (process %s)", store.ErrLocked, dir, cmp.Or(store.Owner(dir), "unknown")), err)
		}
	}
	switch {
	case inCluster && has:
		return nil, nil, fmt.Errorf("%s has rows of its own, in %s, and a node.id, which says that they are in PostgreSQL: if they are, "+
			"move %[2]s* away and start the node with store.url; if no node ever ran on it with store.url and no move went through, "+
			"remove node.id", dir, sqlite.DatabaseName)
	case inCluster:
		return nil, nil, fmt.Errorf("the rows of the node in %s are in PostgreSQL, and it does not run: start it first", dir)
	case !how.create && !has:
		return nil, nil, fmt.Errorf("%s is not a data folder: start a node with it, "+
			"make an account in it, or name another with --data-dir", dir)
	}
	s, openErr := openFolder(dir, how, errs)
	if errors.Is(openErr, store.ErrLocked) {
		return nil, nil, unanswered(openErr, err)
	}
	if openErr != nil {
		return nil, nil, openErr
	}
	return admin.Local(admin.New(s, nobody{}, nil, nil, nil)), s.Close, nil
}

// openFolder opens the rows of a folder without a node.
func openFolder(dir string, how opening, errs io.Writer) (*sqlite.Store, error) {
	s, err := sqlite.OpenAsItIs(dir)
	if err != nil || how.asItIs {
		return s, err
	}
	m, err := s.Migrate()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	sayMigrated(errs, filepath.Join(dir, sqlite.DatabaseName), m)
	return s, nil
}

// sayMigrated tells that the way back to an older program is closed.
func sayMigrated(errs io.Writer, file string, m store.Migration) {
	if m.Changed() {
		fmt.Fprintf(errs, "%s: %v\n", file, m)
	}
}

// unanswered is the error of a folder that a process has which could not be reached.
func unanswered(locked, unreached error) error {
	return fmt.Errorf("%w, which does not answer: it starts, ends or hangs: %w", locked, unreached)
}

func hasDatabase(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, sqlite.DatabaseName))
	return !errors.Is(err, fs.ErrNotExist)
}

// nobody is the node that does not run: there is no one to tell.
type nobody struct{}

func (nobody) Changed(string) {}

func (nobody) KeyChanged(string, string) {}

func (nobody) Drain() {}

func (nobody) Draining() bool { return false }

func (nobody) CountTokens([]byte) (int, bool) { return 0, false }

// WantServedFolder refuses a new folder that the file or a variable names, where the one that it overrules has served: a node
// without its accounts refuses all clients, and its unit may have had that folder until the upgrade.
func WantServedFolder(dir, overruled string) error {
	if overruled == "" || store.InCluster(dir) {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(dir, sqlite.DatabaseName)); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(overruled, sqlite.DatabaseName)); err != nil && !store.InCluster(overruled) { // or nobody may look
		return nil
	}
	return fmt.Errorf("%s has the data of a node, as CORENODE_DATA_DIR_DEFAULT says, and data_dir is %s, which has none: move it there, "+
		"or name none in the file and in CORENODE_DATA_DIR; if it is another node's, unset the variable", overruled, dir)
}
