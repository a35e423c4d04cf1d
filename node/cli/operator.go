package cli

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/operators"
	"corenode/node/store"
)

func operatorCommand() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use: "operator", Short: "Make tokens of operators", Args: cobra.NoArgs,
		Long:    "People and programs that use the admin API have a name, a role and a token each.",
		Example: `  corenode operator new alice --role viewer`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	fresh := &cobra.Command{
		Use: "new NAME", Short: "Make a token and the line of the configuration that knows it", Args: cobra.ExactArgs(1),
		Long: `Print a token, which is kept nowhere, and the entry for admin.operators in the node's
configuration, which has the token's SHA-256 only. A reload puts it in force. A viewer
may look, an operator also run the node, an owner also write backups and take profiles.`,
		Example: `  corenode operator new alice --role operator`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.SilenceUsage = true
			line, token := operators.New(args[0], 0)
			entry := strings.Replace(line.String(), ":nobody:", ":"+role+":", 1)
			if _, err := operators.Parse(entry); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "The token of %s, shown this once:\n%s\n\nThe entry for admin.operators:\n%s\n",
				args[0], token, entry)
			return err
		},
	}
	fresh.Flags().StringVar(&role, "role", "viewer", "viewer, operator or owner")
	cmd.AddCommand(fresh)
	return cmd
}

func auditCommand() *cobra.Command {
	var of string
	var rowsMax int
	var before int64
	cmd := &cobra.Command{
		Use: "audit", Short: "Show who changed what, newest first", Args: cobra.NoArgs,
		Long: `Show the calls of the admin API that changed something, or tried to, the newest first.
Commands on a data folder without a running node are those of "local".`,
		Example: `  corenode audit --operator alice --limit 20`,
	}
	cmd.Flags().StringVar(&of, "operator", "", "only of this operator")
	cmd.Flags().IntVar(&rowsMax, "limit", 100, "most rows, up to 1000")
	cmd.Flags().Int64Var(&before, "before", 0, "only rows before this one")
	cmd.RunE = existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
		query := url.Values{"limit": {strconv.Itoa(rowsMax)}}
		setGiven(query, map[string]string{"operator": of})
		if before > 0 {
			query.Set("before", strconv.FormatInt(before, 10))
		}
		page, err := c.Audit(query)
		return result{page.Data, func(w io.Writer) { printAudit(w, page) }}, err
	})
	return alone(cmd)
}

func printAudit(w io.Writer, page admin.AuditPage) {
	fmt.Fprintln(w, "ROW\tTIME\tOPERATOR\tCALL\tTARGET\tACCOUNT\tKEY\tSTATUS\tNODE")
	for _, r := range page.Data {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s %s\t%s\t%s\t%s\t%d\t%s\n",
			r.ID, stamp(r.Time), r.Operator, r.Method, strings.TrimPrefix(r.Path, admin.Root),
			r.Target, r.AccountID, r.KeyID, r.Status, r.Node)
	}
	moreBefore(w, page.Next)
}

func reloadCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "reload", Short: "Make the node read its configuration again", Args: cobra.NoArgs,
		Long: `As SIGHUP: what can change in a running node is in force when the command returns,
what needs a restart is named. A configuration with mistakes changes nothing, and for a certificate
that cannot be used the one before stays; then the status is 1. Of the file of --config only the
data folder counts: the node reads again what it was started with.`,
		Example: `  corenode reload
  corenode reload --config /etc/corenode/corenode.yaml`,
	}
	alone(cmd).Flags().StringVar(&file, "config", "", "YAML `file` of the node, which names its data folder")
	reload := existing(func(c *admin.Client, cmd *cobra.Command, _ []string) (result, error) {
		done, err := c.Reload()
		shown, err := printed(printReloaded)(done, err)
		if err != nil || len(done.Problems) == 0 {
			return shown, err
		}
		problems := strings.Join(done.Problems, "\n  ")
		if len(done.Changed)+len(done.Waiting) > 0 {
			return shown, errors.Join(show(cmd, shown), errors.New("not all of it can be used:\n  "+problems))
		}
		return shown, shown.although(cmd, errors.New("nothing has changed:\n  "+problems))
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if file != "" && !cmd.Flags().Changed("data-dir") {
			said := config.LoadPartial(config.Sources{File: file, Environment: os.Environ()})
			if !said.Known("data_dir") {
				return said.Err()
			}
			dir := said.Config.DataDir
			if held, err := store.Held(dir); err == nil && !held {
				return noNodeHas(dir, said.Source("data_dir"), file)
			}
			if err := cmd.Flags().Set("data-dir", dir); err != nil {
				return err
			}
		}
		return reload(cmd, args)
	}
	return cmd
}

// noNodeHas is the error of a folder that source names, or nothing in file, and that no process has.
func noNodeHas(dir, source, file string) error {
	if source == "" {
		return fmt.Errorf("no node has the folder %s, the default below this directory, since %s names none: "+
			"name that of the node with --data-dir", dir, file)
	}
	return fmt.Errorf("no node has the folder %s, which %s names: data_dir changes at a restart, so where a node runs on "+
		"the folder before, name that with --data-dir", dir, source)
}

func printReloaded(w io.Writer, r admin.Reloaded) {
	for _, part := range []struct {
		what string
		keys []string
	}{{"in force now", r.Changed}, {"waits for a restart", r.Waiting}} {
		for _, key := range part.keys {
			fmt.Fprintf(w, "%s\t%s\n", part.what, key)
		}
	}
	if len(r.Changed)+len(r.Waiting) == 0 {
		fmt.Fprintln(w, "Nothing has changed.")
	}
}
