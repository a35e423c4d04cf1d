package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"corenode/node/admin"
	"corenode/node/store"
)

func configCommand() *cobra.Command {
	return group("config", "Show the configuration of a running node",
		`What a running node works with, and where each value came from.`,
		`  corenode config show
  corenode config show --changed`,
		configShow())
}

func configShow() *cobra.Command {
	var changed bool
	cmd := &cobra.Command{
		Use: "show", Short: "Show every value in force and where it came from", Args: cobra.NoArgs,
		Long: `Show every value that is in force and where it came from: a file with its line, a variable of
the environment, the command line, or the default. RELOAD says which ones a reload changes;
the others wait for the next start.`,
		Example: `  corenode config show --changed
  corenode config show --json`,
	}
	cmd.Flags().BoolVar(&changed, "changed", false, "only what is not the default")
	cmd.RunE = existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
		all, err := c.Settings()
		shown := []admin.Setting{}
		for _, s := range all {
			if s.Changed || !changed {
				shown = append(shown, s)
			}
		}
		return printed(printSettings)(shown, err)
	})
	return cmd
}

func printSettings(w io.Writer, all []admin.Setting) {
	fmt.Fprintln(w, "KEY\tVALUE\tSOURCE\tDEFAULT\tRELOAD")
	for _, s := range all {
		source, byDefault := s.Source, ""
		if s.Line > 0 {
			source = fmt.Sprintf("%s:%d", s.Source, s.Line)
		}
		if s.Changed {
			byDefault = s.Default
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%v\n", s.Key, s.Value, source, byDefault, s.Reload)
	}
}

// followEvery is how often the log is asked for what is new.
const followEvery = 500 * time.Millisecond

func logsCommand() *cobra.Command {
	var level, kind, of string
	var follow bool
	var rowsMax int
	cmd := &cobra.Command{
		Use: "logs", Short: "Show the latest lines of a running node's log", Args: cobra.NoArgs,
		Long: `Show the latest lines of a running node's log, of which it keeps 512 KiB in memory, the oldest
first. With --level warn or error it has 128 KiB of older ones of these too. With --follow
also those that come, until it is interrupted, and how many came too fast to be shown. KIND
is the line's message, such as request or admin.`,
		Example: `  corenode logs --level warn
  corenode logs --kind request --account alice --follow`,
	}
	f := cmd.Flags()
	f.StringVar(&level, "level", "", "the least severe: debug, info, warn or error")
	f.StringVar(&kind, "kind", "", "only lines of this message")
	f.StringVar(&of, "account", "", "only of this account, by its name or id")
	f.BoolVar(&follow, "follow", false, "go on with lines as they come")
	f.IntVar(&rowsMax, "limit", 100, "most lines, up to 1000")
	cmd.RunE = existing(func(c *admin.Client, cmd *cobra.Command, _ []string) (result, error) {
		query := url.Values{"limit": {fmt.Sprint(rowsMax)}}
		setGiven(query, map[string]string{"account": of, "level": level, "kind": kind})
		if !follow {
			page, err := c.Logs(query)
			return printed(printLogs)(page.Data, err)
		}
		return untilInterrupted(cmd, func(ctx context.Context, w io.Writer, asJSON bool) error {
			return followLogs(ctx, w, asJSON, c.Logs, query)
		}), nil
	})
	return alone(cmd)
}

// untilInterrupted is a result that is printed as it comes, until it ends or somebody interrupts it.
func untilInterrupted(cmd *cobra.Command, do func(ctx context.Context, w io.Writer, asJSON bool) error) result {
	return result{pages(func(w io.Writer, asJSON bool) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
		defer stop()
		if !asJSON {
			w = plainWriter{w}
		}
		return do(ctx, w, asJSON)
	}), nil}
}

func printLogs(w io.Writer, all []admin.LogLine) {
	for _, l := range all {
		fmt.Fprintf(w, "%s %s %s %s\n", l.Time, l.Level, l.Kind, l.Text)
	}
}

// printFollowed prints lines as they come, and how many are missing before them; as JSON an object each.
func printFollowed(w io.Writer, asJSON bool, page admin.LogPage) {
	if !asJSON {
		if page.Missed > 0 {
			fmt.Fprintf(w, "(%d lines of the log came faster than they could be shown, and are not here)\n", page.Missed)
		}
		printLogs(w, page.Data)
		return
	}
	e := json.NewEncoder(w)
	if page.Missed > 0 {
		_ = e.Encode(map[string]any{"missed": page.Missed})
	}
	for _, l := range page.Data {
		_ = e.Encode(l)
	}
}

// followLogs prints the lines that a query selects, and those that come. What the node forgot before it
// was asked is told in its place.
func followLogs(ctx context.Context, w io.Writer, asJSON bool, ask func(url.Values) (admin.LogPage, error), query url.Values) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		page, err := ask(query)
		if err != nil {
			return err
		}
		printFollowed(w, asJSON, page)
		full := query.Has("after") && len(page.Data) == admin.LogLinesMax // there are more
		query.Set("after", fmt.Sprint(page.Next))
		query.Set("limit", fmt.Sprint(admin.LogLinesMax))
		if full && ctx.Err() == nil {
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

func drainCommand() *cobra.Command {
	var wait, look bool
	cmd := &cobra.Command{
		Use: "drain", Short: "Stop a running node when its requests have ended", Args: cobra.NoArgs,
		Long: `Begin the shutdown of a running node: when limits.drain_delay is over new requests are refused,
those that run go on until limits.drain_timeout ends them, then the process ends. A drain that has begun cannot be taken
back: start the node again.`,
		Example: `  corenode drain --wait
  corenode drain --look`,
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "say what is left until the node has ended")
	cmd.Flags().BoolVar(&look, "look", false, "only say how far a drain is")
	cmd.RunE = existing(func(c *admin.Client, cmd *cobra.Command, _ []string) (result, error) {
		s, err := c.DrainState()
		if err != nil || look { // without a node there is nothing to drain, and no row of the audit
			return printed(printDrain)(s, err)
		}
		if _, err := c.Drain(); err != nil {
			return result{}, err
		}
		if !wait { // it is not asked again: an idle node has ended by now
			if !s.Draining {
				s.Draining, s.LeftMS = true, s.TimeoutMS
			}
			return printed(printDrain)(s, nil)
		}
		return untilInterrupted(cmd, func(ctx context.Context, w io.Writer, asJSON bool) error {
			if err := awaitDrain(ctx, w, asJSON, c); err != nil {
				return err
			}
			if err := awaitEnd(ctx, cmd.Flag("data-dir").Value.String()); err != nil {
				return err
			}
			if !asJSON {
				fmt.Fprintln(w, "The node has ended.")
			}
			return nil
		}), nil
	})
	return alone(cmd)
}

func printDrain(w io.Writer, s admin.DrainState) {
	if !s.Draining {
		fmt.Fprintf(w, "The node takes requests; %d live. A drain may take %s.\n", s.Requests, time.Duration(s.TimeoutMS)*time.Millisecond)
		return
	}
	fmt.Fprintf(w, "The node drains: %d requests and %d rows of the ledger are left, at most %s.\n", s.Requests, s.Rows,
		s.Left().Round(time.Second))
}

// awaitDrain says what is left, once a second, until the node does not answer any more, or the next one does at its address,
// which does not drain and mostly has another token; as JSON an object each time.
func awaitDrain(ctx context.Context, w io.Writer, asJSON bool, c *admin.Client) error {
	for drained := false; ; {
		s, err := c.DrainState()
		switch e, answered := errors.AsType[*admin.Error](err); {
		case err != nil && !answered:
			return nil
		case drained && (err == nil && !s.Draining || err != nil && e.Kind == admin.KindUnauthenticated):
			return nil
		case err != nil:
			return err
		}
		drained = drained || s.Draining
		if asJSON {
			_ = json.NewEncoder(w).Encode(s)
		} else {
			printDrain(w, s)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return errDraining
		}
	}
}

// errDraining is what an interrupted wait says.
var errDraining = errors.New("interrupted: the node goes on to its end")

// awaitEnd returns when a node that no longer answers has left its data folder to the next one, or when that answers.
func awaitEnd(ctx context.Context, dir string) error {
	for ctx.Err() == nil {
		lock, err := store.LockFolder(dir)
		if err == nil {
			return lock.Close()
		}
		if !errors.Is(err, store.ErrLocked) {
			return err
		}
		if _, err := admin.Dial(dir); err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return errDraining
}
