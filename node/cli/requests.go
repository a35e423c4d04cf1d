package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"corenode/node/admin"
	"corenode/node/why"
)

func requestsCommand() *cobra.Command {
	return group("requests", "List and cancel the requests of a running node",
		`What the node is doing now, and did lately. It keeps no body of any request.`,
		`  corenode requests list
  corenode requests list --past --account alice
  corenode requests cancel req_01j9x2v7k3m8`,
		requestsList(), requestsCancel())
}

func requestsList() *cobra.Command {
	var of, model, phase, id string
	var past bool
	var rowsMax int
	var before uint64
	cmd := &cobra.Command{
		Use: "list", Short: "List live requests, oldest first, or past ones, newest first", Args: cobra.NoArgs,
		Long: `List the requests of this moment, the oldest first, or with --past those that ended,
the newest first; of these the node keeps some thousands until it ends. The phases are
admission, queue, prefill, decode, hold (output waits for its hold to be durable), paused
(the client does not read), settlement, and short for what takes no model. PERMIT says
which of them hold a permit of their account.`,
		Example: `  corenode requests list --account alice
  corenode requests list --phase queue --json
  corenode requests list --past --id req_01j9x2v7k3m8`,
	}
	f := cmd.Flags()
	f.StringVar(&of, "account", "", "only of this account, by its name or id")
	f.StringVar(&model, "model", "", "only of this model")
	f.StringVar(&phase, "phase", "", "only in this phase; of live ones")
	f.StringVar(&id, "id", "", "only this one; of past ones")
	f.BoolVar(&past, "past", false, "those that ended")
	f.IntVar(&rowsMax, "limit", 100, "most past requests, up to 1000")
	f.Uint64Var(&before, "before", 0, "only those that ended before the one of this number; of past ones")
	cmd.RunE = existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
		if past && phase != "" || !past && (id != "" || before > 0) {
			return result{}, errors.New("--phase is for live requests, --id and --before for those of --past")
		}
		query := url.Values{}
		setGiven(query, map[string]string{"account": of, "model": model, "phase": phase, "id": id})
		if past {
			query.Set("limit", strconv.Itoa(rowsMax))
			if before > 0 {
				query.Set("before", strconv.FormatUint(before, 10))
			}
			page, err := c.PastRequests(query)
			return result{page.Data, func(w io.Writer) { printPast(w, page) }}, err
		}
		page, err := c.Requests(query)
		return printed(printRequests)(page.Data, err)
	})
	return cmd
}

func printRequests(w io.Writer, all []admin.Request) {
	fmt.Fprintln(w, "REQUEST\tACCOUNT\tMODEL\tPHASE\tAGE\tPERMIT\tPROMPT\tCACHED\tOUTPUT\tREPLICA")
	for _, r := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%v\t%d\t%d\t%d\t%s\n", r.ID, r.AccountID, r.Model, phaseText(r), age(r.AgeMS), r.Permit,
			r.Prompt, r.Cached, r.Output, r.Replica)
	}
}

// phaseText is a phase and how far it is.
func phaseText(r admin.Request) string {
	switch {
	case r.Phase == "prefill" && r.Replica == "": // what a server elsewhere has computed is not known
		return fmt.Sprintf("prefill %.0f %%", 100*r.Prefilled())
	case r.Phase == "decode" && r.DecodeRate > 0:
		return fmt.Sprintf("decode %.1f/s", r.DecodeRate)
	}
	return r.Phase
}

func age(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

func printPast(w io.Writer, page admin.PastPage) {
	fmt.Fprintln(w, "REQUEST\tBEGAN\tACCOUNT\tMODEL\tSTATUS\tENDED\tTOTAL\tQUEUE\tPREFILL\tDECODE\tINPUT\tCACHED\tOUTPUT\tUSD")
	for _, p := range page.Data {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%.0fms\t%.0fms\t%.0fms\t%.0fms\t%d\t%d\t%d\t%s\n",
			p.ID, stamp(p.Began), p.AccountID, p.Model,
			p.Status, cmp.Or(p.Error, p.Reason), p.TotalMS, p.QueueMS, p.PrefillMS, p.DecodeMS, p.Usage.InputUncached, p.Usage.CacheRead,
			p.Usage.Output, p.ChargeUSD)
	}
	moreBefore(w, page.Next)
}

// moreBefore says how to go on behind a page of the newest rows.
func moreBefore[N int64 | uint64](w io.Writer, next N) {
	if next > 0 {
		fmt.Fprintf(w, "There may be more: --before %d\n", next)
	}
}

func requestsCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel REQUEST", Short: "End a request", Args: cobra.ExactArgs(1),
		Long: `End a request of which the client does not hear any more than an error. A stream
of which content has begun to leave pays what was computed, as one that its client
cancelled; any other request pays nothing.`,
		Example: `  corenode requests cancel req_01j9x2v7k3m8`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			return result{admin.Canceled{ID: args[0]}, func(w io.Writer) { fmt.Fprintf(w, "Request %s is cancelled.\n", args[0]) }},
				c.CancelRequest(args[0])
		}),
	}
}

// alone makes a command that is not in a group.
func alone(cmd *cobra.Command) *cobra.Command {
	dataDirFlag(cmd)
	cmd.Flags().Bool("json", false, "print JSON")
	return cmd
}

func whyCommand() *cobra.Command {
	var seconds int
	cmd := &cobra.Command{
		Use: "why", Short: "Say why the node is slow now", Args: cobra.NoArgs,
		Long: `Watch the running node for some seconds and say what slows it: other programs,
the host of the machine, the disk, a module, the collector of garbage, a long prompt,
full batches, memory, or more requests than it can take. First the sentence, then all
that was looked at; a weight of 1 and more slows the node.`,
		Example: `  corenode why --seconds 5`,
	}
	cmd.Flags().IntVar(&seconds, "seconds", 2, "how long to watch, 1 to 30")
	cmd.RunE = existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
		return printed(printDiagnosis)(c.Why(seconds))
	})
	return alone(cmd)
}

func printDiagnosis(w io.Writer, d why.Diagnosis) {
	fmt.Fprintf(w, "%s\n\nWEIGHT\tCAUSE\tWHAT WAS SEEN\n", d.Sentence)
	for _, c := range d.Causes {
		fmt.Fprintf(w, "%.2f\t%s\t%s\n", c.Weight, c.Name, c.Sentence)
	}
}

func topCommand() *cobra.Command {
	var every time.Duration
	var once bool
	cmd := &cobra.Command{
		Use: "top", Short: "Watch the live requests of a node in the terminal", Args: cobra.NoArgs,
		Long: `Show how many live requests a running node has in each phase, how many tokens a second
those that decode get, and the requests, the oldest first, as far as the terminal
reaches; again and again until it is interrupted.`,
		Example: `  corenode top
  corenode top --every 500ms
  corenode top --once`,
	}
	cmd.Flags().DurationVar(&every, "every", time.Second, "time between two looks, at least 100ms")
	cmd.Flags().BoolVar(&once, "once", false, "look once")
	dataDirFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		cmd.SilenceUsage = true
		dir, err := cmd.Flags().GetString("data-dir")
		if err != nil {
			return err
		}
		c, hangUp, err := connect(dir, opening{}, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, hangUp()) }()
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
		defer stop()
		return watch(ctx, cmd.OutOrStdout(), c, max(every, 100*time.Millisecond), once)
	}
	return cmd
}

// topRows is how many requests top shows where it knows of no terminal.
const topRows = 40

// topAround is how many lines are around the requests: the summary, an empty one, the head, how many are left out, the cursor's.
const topAround = 5

// watch prints one look after another, each in the place of the one before.
func watch(ctx context.Context, to io.Writer, c *admin.Client, every time.Duration, once bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		page, err := c.Requests(url.Values{})
		if err != nil {
			return err
		}
		columns, lines := 0, 0
		if !once && isScreen(to) {
			columns, lines = terminalSize() // at each look: it may change
		}
		screen := topScreen(page.Data, columns, lines)
		if !once {
			screen = "\x1b[H\x1b[2J" + screen // home, and clear
		}
		if _, err := io.WriteString(to, screen); err != nil || once {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// topScreen is what one look shows, in so many columns and lines; 0 is a size that is not known.
func topScreen(all []admin.Request, columns, lines int) string {
	phases, rate := map[string]int{}, 0.0
	for _, r := range all {
		phases[r.Phase]++
		if r.Phase == "decode" { // of another it is what it was
			rate += r.DecodeRate
		}
	}
	var counts []string
	for phase, n := range phases {
		counts = append(counts, fmt.Sprintf("%d %s", n, phase))
	}
	slices.Sort(counts)
	var text strings.Builder
	fmt.Fprintf(&text, "%d requests: %s; %.1f tokens/s\n\n", len(all), cmp.Or(strings.Join(counts, ", "), "none"), rate)
	rows := topRows
	if lines > 0 {
		rows = max(0, lines-topAround)
	}
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	printRequests(plainWriter{table}, all[:min(len(all), rows)])
	table.Flush() // into memory: it does not fail
	if more := len(all) - rows; more > 0 {
		fmt.Fprintf(&text, "and %d more\n", more)
	}
	return cut(text.String(), columns, lines)
}

// cut is the upper left part of a text that a terminal shows without scrolling; 0 is a size that is not known.
func cut(text string, columns, lines int) string {
	shown := strings.SplitAfter(text, "\n")
	if lines > 0 {
		shown = shown[:min(len(shown), lines-1)]
	}
	for i, line := range shown {
		if runes := []rune(strings.TrimSuffix(line, "\n")); columns > 0 && len(runes) > columns {
			shown[i] = string(runes[:columns]) + "\n"
		}
	}
	return strings.Join(shown, "")
}
