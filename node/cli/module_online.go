package cli

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"corenode/extensions"
	"corenode/extensions/guest"
	"corenode/node/admin"
)

// onlineVerbs are the commands that act on the modules of a running node.
func onlineVerbs() []*cobra.Command {
	return []*cobra.Command{moduleDev(), moduleList(), moduleShow(), moduleLoad(), moduleActivate(), moduleEnable(), moduleDisable(),
		moduleCanary(), moduleShadow(), moduleCapture(), moduleCompare(), moduleRollback(), moduleRemove(), moduleReplay(), moduleRerate()}
}

func moduleList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the loaded modules with their state and counters", Args: cobra.NoArgs,
		Example: `  corenode module list
  corenode module list --json`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
			return printed(printModules)(c.Modules())
		}),
	}
}

func printModules(w io.Writer, all []extensions.Info) {
	fmt.Fprintln(w, "SLOT\tMODULE\tDIGEST\tCONFIG\tSTATE\tCALLS\tFAULTS\tDECLINED\tDIFFER\tTICKS\tCPU\tPOOL\tMEMORY")
	for _, m := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\t%d\t%s\t%d/%d\t%.1f MB\n", m.Slot, titleOf(m), extensions.Abbreviate(m.Digest),
			configOf(m), stateOf(m), m.Calls, faultsOf(m), m.Declined, differencesOf(m), m.Ticks, m.CPU.Round(time.Microsecond),
			m.InstancesBusy, m.Instances, float64(m.MemoryBytes)/1e6)
	}
	for _, m := range all {
		if m.Error != "" {
			fmt.Fprintf(w, "%s %s: %s\n", cmp.Or(extensions.Abbreviate(m.Digest), string(m.Slot)), m.State, m.Error)
		}
	}
}

// titleOf is how people name a module. A slot without a module has none, nor
// has a file that the node has not read since its start.
func titleOf(m extensions.Info) string {
	switch {
	case m.Name != "":
		return m.Name + "@" + m.Version
	case m.Digest == "":
		return "none"
	}
	return "not read yet"
}

// stateOf is a module's state. A native build that serves is told from one that
// stands by.
func stateOf(m extensions.Info) string {
	switch {
	case m.State == extensions.StateBuiltin && m.Serving:
		return "builtin, active"
	case m.Percent > 0:
		return fmt.Sprintf("%s %d%%", m.State, m.Percent)
	}
	return m.State
}

// configOf tells the configurations of a module apart.
func configOf(m extensions.Info) string {
	if m.ConfigSHA256 == "" {
		return "-"
	}
	return m.ConfigSHA256[:min(8, len(m.ConfigSHA256))]
}

// differencesOf says how many of the calls that a shadow repeated gave something else.
func differencesOf(m extensions.Info) string {
	if m.ShadowRuns == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", m.ShadowMismatches, m.ShadowRuns)
}

func faultsOf(m extensions.Info) string {
	var parts []string
	for _, cause := range slices.Sorted(maps.Keys(m.Faults)) {
		if n := m.Faults[cause]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", cause, n))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "0")
}

func moduleShow() *cobra.Command {
	return &cobra.Command{
		Use: "show MODULE", Short: "Show one module, and what its configuration looks like", Args: cobra.ExactArgs(1),
		Long: `Print what the module says of itself, its state and counters, and the JSON Schema
of its configuration, if it has one.`,
		Example: `  corenode module show discount@1.2.0`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			return printed(printDetail)(c.Module(args[0]))
		}),
	}
}

func printDetail(w io.Writer, m extensions.Info) {
	printModule(w, m)
	if m.Description != "" {
		fmt.Fprintln(w, m.Description)
	}
	if m.ConfigSchema == nil {
		fmt.Fprintln(w, "It does not say what its configuration looks like.")
		return
	}
	var schema bytes.Buffer
	_ = json.Indent(&schema, m.ConfigSchema, "", "  ") // it was parsed
	fmt.Fprintf(w, "What its configuration may be:\n%s\n", schema.Bytes())
}

func moduleLoad() *cobra.Command {
	var signature, config string
	var activate, reconfigure bool
	cmd := &cobra.Command{
		Use: "load FILE", Short: "Check and compile a module; it serves nothing yet", Args: cobra.ExactArgs(1),
		Long: `Send a module to the running node, which checks its signature, meters and compiles
it, runs its golden vectors and makes a usual call of each operation. It serves
nothing until it is activated, made a canary or a shadow. The signature is read
from FILE.sig when that exists.

A file has one configuration in a node. With --reconfigure a file that serves gets the
one of --config at once, and requests that run end with the old one. Of a billing module
that serves or has charged it stays: charges are computed by it. Raise its version.`,
		Example: `  corenode module load discount.wasm
  corenode module load discount.wasm --config discount.json --activate`,
	}
	f := cmd.Flags()
	f.StringVar(&signature, "signature", "", "signature `file` (default FILE.sig if there is one)")
	f.StringVar(&config, "config", "", "JSON `file` for the module's own configuration")
	f.BoolVar(&activate, "activate", false, "make it serve its slot at once")
	f.BoolVar(&reconfigure, "reconfigure", false, "if this file serves, give it the configuration at once")
	cmd.RunE = existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
		in, err := newModule(args[0], signature, config)
		if err != nil {
			return result{}, err
		}
		in.Reconfigure = reconfigure
		m, err := c.LoadModule(in)
		if err == nil && activate {
			m, err = c.ActivateModule(m.Digest)
		}
		return changed(cmd)(m, err)
	})
	return cmd
}

// newModule reads what load sends.
func newModule(file, signature, config string) (in admin.NewModule, err error) {
	if info, err := os.Stat(file); err == nil && info.Size() > guest.BytesMax { // a node would not read it to its end
		return in, fmt.Errorf("%s has %d bytes, and a module at most %d: strip debug information and unused code",
			file, info.Size(), guest.BytesMax)
	}
	if in.Wasm, err = os.ReadFile(file); err != nil {
		return in, err
	}
	named := signature != ""
	if !named {
		signature = file + ".sig"
	}
	text, err := os.ReadFile(signature)
	if err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
		return in, err
	}
	if err == nil {
		if in.Signature, err = base64.StdEncoding.DecodeString(strings.TrimSpace(string(text))); err != nil {
			return in, fmt.Errorf("%s is not a signature in base64: %w", signature, err)
		}
	}
	if config != "" {
		if in.Config, err = os.ReadFile(config); err != nil {
			return in, err
		}
		if !json.Valid(in.Config) {
			return in, fmt.Errorf("%s is not JSON", config)
		}
	}
	return in, nil
}

func printModule(w io.Writer, m extensions.Info) {
	printModules(w, []extensions.Info{m})
	if m.Note != "" {
		fmt.Fprintf(w, "Note: %s.\n", m.Note)
	}
}

// changed makes a result of a change of what serves. Nodes that do not follow in time make it an error: what comes next
// in a script counts on all of them.
func changed(cmd *cobra.Command) func(extensions.Info, error) (result, error) {
	return func(m extensions.Info, err error) (result, error) {
		done, err := printed(printModule)(m, err)
		if late := admin.LateNodes(m); err == nil && late != "" {
			err = done.although(cmd,
				fmt.Errorf("the change is made, but these nodes do not follow yet: %s; see corenode cluster nodes", late))
		}
		return done, err
	}
}

func moduleActivate() *cobra.Command {
	return &cobra.Command{
		Use: "activate MODULE", Short: "Let a loaded module serve its slot", Args: cobra.ExactArgs(1),
		Long: `New requests go to the module at once; streams that run finish on the one they
began with. MODULE is a digest, its first characters, or name@version.

Where nodes share a database this command and the others that change what serves end
when each of them follows, after 10 s at most: then they name those that do not, and
the status is 1.`,
		Example: `  corenode module activate discount@1.2.0`,
		RunE: existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
			return changed(cmd)(c.ActivateModule(args[0]))
		}),
	}
}

func moduleEnable() *cobra.Command {
	return &cobra.Command{
		Use: "enable NAME", Short: "Let a module of the program serve that is off by default", Args: cobra.ExactArgs(1),
		Long: `Its paths are answered from now on, also after restarts and upgrades. module list
shows the modules that there are.`,
		Example: `  corenode module enable ollama`,
		RunE: existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
			return changed(cmd)(c.EnableModule(args[0]))
		}),
	}
}

func moduleDisable() *cobra.Command {
	return &cobra.Command{
		Use: "disable NAME", Short: "End what enable began", Args: cobra.ExactArgs(1),
		Long:    "Its paths are unknown from now on; requests that run finish.",
		Example: `  corenode module disable ollama`,
		RunE: existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
			return changed(cmd)(c.DisableModule(args[0]))
		}),
	}
}

func moduleCanary() *cobra.Command {
	return &cobra.Command{
		Use: "canary MODULE PERCENT", Short: "Let a module serve a percentage of the accounts", Args: cobra.ExactArgs(2),
		Long: `Which accounts those are follows from their ids: an account stays on one side.
0 ends it. The module's own shadow ends with it; a slot with another one has no canary.`,
		Example: "  corenode module canary discount@1.2.0 10%",
		RunE: existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
			percent, err := percentOf(args[1])
			if err != nil {
				return result{}, err
			}
			return changed(cmd)(c.CanaryModule(args[0], percent))
		}),
	}
}

func moduleRollback() *cobra.Command {
	return &cobra.Command{
		Use: "rollback SLOT", Short: "Let the module that served a slot before serve it again", Args: cobra.ExactArgs(1),
		Long: `It was kept compiled, so this is immediate. SLOT is chat, responses, billing,
admission, rewrite, filter, a later place of these such as filter.2, or the protocol of a module
with paths of its own.`,
		Example: `  corenode module rollback billing`,
		RunE: existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
			return changed(cmd)(c.Rollback(args[0]))
		}),
	}
}

func moduleRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove MODULE", Short: "Forget a module that serves nothing", Args: cobra.ExactArgs(1),
		Long: "A billing module that may have made charges stays on disk, so that they can be replayed.", Example: `  corenode module remove 3f2a91c04b1e`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, args []string) (result, error) {
			return result{struct{}{}, func(w io.Writer) { fmt.Fprintf(w, "Module %s is removed.\n", args[0]) }}, c.RemoveModule(args[0])
		}),
	}
}

func printReplay(w io.Writer, r admin.Replayed) {
	fmt.Fprintf(w, "module\t%s\ninput\tsha256 %s\n", r.Entry.ModuleDigest, r.InputHash)
	for _, l := range r.Lines {
		fmt.Fprintf(w, "%s\t%d tokens at %d = %d nano-dollars\n", l.Unit, l.Tokens, l.PriceNanoUSD, l.AmountNanoUSD)
	}
	said := ""
	if r.Same {
		said = ", as in the ledger"
	}
	fmt.Fprintf(w, "tier\t%d\namount\t%d nano-dollars%s\n", r.Tier, r.AmountNanoUSD, said)
}

func moduleRerate() *cobra.Command {
	return &cobra.Command{
		Use: "re-rate", Short: "Rate charges again that a failing module left provisional", Args: cobra.NoArgs,
		Long: `A charge is provisional when the built-in tariff made it because the billing
module failed, or was not in memory yet after a start. Each gets one adjustment
row in the ledger, by the module that is active now: activate one that works first.
Who interrupts the command ends the work: what was rated stays, and the next one goes on.`,
		Example: `  corenode module re-rate`,
		RunE: existing(func(c *admin.Client, _ *cobra.Command, _ []string) (result, error) {
			return printed(printRerated)(c.Rerate())
		}),
	}
}

func printRerated(w io.Writer, r admin.Rerated) {
	fmt.Fprintf(w, "Provisional charges rated again: %d. %s\n", r.Rated, adjusted(r))
	for _, id := range r.Failed {
		fmt.Fprintf(w, "%s could not be rated and stays provisional.\n", id)
	}
}

// adjusted says who got the sum of the adjustments.
func adjusted(r admin.Rerated) string {
	switch {
	case r.AmountNanoUSD > 0:
		return fmt.Sprintf("The accounts got %s dollars back.", r.AmountUSD)
	case r.AmountNanoUSD < 0:
		return fmt.Sprintf("The accounts paid %s dollars more.", strings.TrimPrefix(r.AmountUSD, "-"))
	}
	return "No amount changed."
}
