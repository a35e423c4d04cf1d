package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"corenode/extensions"
	"corenode/extensions/compare"
	"corenode/node/admin"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

func moduleShadow() *cobra.Command {
	return &cobra.Command{
		Use: "shadow MODULE [PERCENT]", Short: "Run a module beside the active one and compare", Args: cobra.RangeArgs(1, 2),
		Long: `With PERCENT the module repeats that share of its slot's calls; its results are
compared and thrown away. 0 ends it. A slot with a canary has no shadow.

Without PERCENT it prints what the comparison came to since the shadow began: how
many calls differ, and of a billing module the old and the new sum, how many
charges changed by how much, whose charges changed most, and the first calls that
differ. Numbers are kept, no texts. A restart begins anew.`,
		Example: `  corenode module shadow discount@1.2.0 10%
  corenode module shadow discount@1.2.0
  corenode module shadow discount@1.2.0 0`,
		RunE: existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
			if len(args) == 1 {
				return printed(printShadow)(c.ShadowReport(args[0]))
			}
			percent, err := percentOf(args[1])
			if err != nil {
				return result{}, err
			}
			return changed(cmd)(c.ShadowModule(args[0], percent))
		}),
	}
}

// percentOf reads a percentage, with its sign or without.
func percentOf(text string) (int, error) {
	percent, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
	if err != nil || percent < 0 || percent > 100 {
		return 0, fmt.Errorf("PERCENT is %q, want 0 to 100", text)
	}
	return percent, nil
}

// printShadow writes a report for people. A line without tabs ends a table.
func printShadow(w io.Writer, r compare.Report) {
	how := fmt.Sprintf("repeats %d %% of the requests", r.Percent)
	if r.Percent == 0 {
		how = "is a shadow no more; it repeated calls"
	}
	beside := cmp.Or(strings.Join(r.Beside, ", "), "no call yet")
	fmt.Fprintf(w, "%s %s %s since %s, beside %s.\n\n",
		r.Module, extensions.Abbreviate(r.Digest), how, r.Since.UTC().Format(time.DateTime), beside)
	fmt.Fprintln(w, "CALLS\tREPEATED\tDIFFER\tFAILED")
	for _, o := range r.Operations {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", o.Op, o.Calls, o.Differ, o.Failed)
	}
	if r.Dropped > 0 {
		fmt.Fprintf(w, "Not repeated, for lack of time: %d.\n", r.Dropped)
	}
	if r.Charges != nil {
		printCharges(w, r.Charges)
	}
	if len(r.First) > 0 {
		fmt.Fprintf(w, "\nThe first calls that differ:\n")
	}
	for i, d := range r.First {
		printDifference(w, i+1, d)
	}
}

func printCharges(w io.Writer, c *compare.Charges) {
	fmt.Fprintf(w, "\n%d charges: %d less, %d more, %d the same.\n", c.Calls, c.Less, c.More, c.Same)
	fmt.Fprintln(w, "OLD SUM\tNEW SUM\tCHANGE")
	fmt.Fprintf(w, "$%s\t$%s\t%s\n", builtin.FormatUSD(c.OldNanoUSD), builtin.FormatUSD(c.NewNanoUSD), changeOf(c.OldNanoUSD, c.NewNanoUSD))
	if c.NotMade > 0 {
		fmt.Fprintf(w, "Not among them, since it failed or declined: %d. The built-in tariff would make these, provisionally.\n", c.NotMade)
	}
	if c.AgainstRules > 0 {
		fmt.Fprintf(w, "Charges and quotes that break a rule, which are not among them: %d, the latest: %s.\n", c.AgainstRules, c.Rule)
	}
	var largest uint64
	for _, r := range c.Ratios {
		largest = max(largest, r.Calls)
	}
	fmt.Fprintf(w, "\nNEW / OLD\tCHARGES\t\n")
	for _, r := range c.Ratios {
		if r.Calls > 0 {
			fmt.Fprintf(w, "%s\t%d\t%s\n", r.Ratio, r.Calls, strings.Repeat("#", int((r.Calls*40+largest-1)/largest)))
		}
	}
	if len(c.Accounts) > 0 {
		fmt.Fprintf(w, "\nACCOUNT\tCHARGES\tOLD\tNEW\tCHANGE\tNOT COUNTED\n")
	}
	for _, a := range c.Accounts {
		missed := "-"
		if a.MissedNanoUSD > 0 {
			missed = "at most $" + builtin.FormatUSD(a.MissedNanoUSD)
		}
		fmt.Fprintf(w, "%s\t%d\t$%s\t$%s\t%s\t%s\n", a.Account, a.Calls, builtin.FormatUSD(a.OldNanoUSD), builtin.FormatUSD(a.NewNanoUSD),
			changeOf(a.OldNanoUSD, a.NewNanoUSD), missed)
	}
}

// changeOf says how much more or less a sum is, in dollars and in percent.
func changeOf(older, newer abi.Nano) string {
	sign, change := "+", newer-older
	if newer < older {
		sign, change = "-", older-newer
	}
	if change < 0 { // it does not fit
		change = math.MaxInt64
	}
	text := sign + "$" + builtin.FormatUSD(change)
	if older > 0 {
		text += fmt.Sprintf(" (%+.1f %%)", 100*(float64(newer)/float64(older)-1))
	}
	return text
}

func printDifference(w io.Writer, number int, d compare.Difference) {
	asked := ""
	if d.Model != "" {
		asked = ": " + d.Model + " " + numbersOf(d.Asked)
	}
	fmt.Fprintf(w, "%d. %s of %s%s\n   old %s\n   new %s\n", number, d.Op, d.Account, asked, answerText(d.Old), answerText(d.New))
	if len(d.Old.Numbers) == 0 && d.New.Bytes > 0 { // of a translator: nothing but where they part can be shown
		fmt.Fprintf(w, "   the first byte that differs is %d\n", d.Byte)
	}
}

func numbersOf(all []compare.Number) string {
	var parts []string
	for _, n := range all {
		parts = append(parts, fmt.Sprintf("%s %d", n.Name, n.Value))
	}
	return strings.Join(parts, ", ")
}

func answerText(a compare.Answer) string {
	switch {
	case len(a.Numbers) == 0 && a.Bytes == 0:
		return a.Status
	case len(a.Numbers) == 0:
		return fmt.Sprintf("%s, %d bytes", a.Status, a.Bytes)
	}
	text := numbersOf(a.Numbers)
	for _, l := range a.Lines {
		text += fmt.Sprintf("; %s %d at %d = %d", l.Unit, l.Tokens, l.PriceNanoUSD, l.AmountNanoUSD)
	}
	return text
}
