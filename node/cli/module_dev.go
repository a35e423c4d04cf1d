package cli

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"corenode/extensions"
	"corenode/extensions/capture"
	"corenode/extensions/check"
	"corenode/extensions/guest"
	"corenode/extensions/vector"
	"corenode/node/admin"
	"corenode/node/cli/devloop"
)

func moduleDev() *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use: "dev DIR", Short: "Build, check and swap a module in a running node whenever its source is saved", Args: cobra.ExactArgs(1),
		Long: `Watch a module's project. Whenever a file of it is saved, build it with the target
compile of its Makefile (or --build), check it, and let it serve its slot in the
running node: new requests get the new build, streams end on the one they began
with. A build that fails, or does not pass, changes nothing; what is wrong is shown.

After each swap it shows what changed: with --update the golden vectors whose want
is another now, and the requests that module capture kept, run on the old and the
new build: first difference, tokens, dollars and ticks.

When it ends, by Ctrl-C or because the terminal is gone, what serves stays and
the last line says how to go back; with --restore Ctrl-C lets what served before serve
again. Staying is the default since it is what happens however the command ends.`,
		Example: `  corenode module dev discount --config discount.json
  corenode module capture chat --for 10m --account me    # in another terminal, and then some requests
  corenode module dev verses --update --restore`,
	}
	f := cmd.Flags()
	f.StringVar(&o.build, "build", "", "shell `line` that compiles the module, run in DIR")
	f.StringVar(&o.config, "config", "", "JSON `file` for the module's own configuration, watched too")
	f.StringVar(&o.key, "key", "", "private key `file` that signs each build, for a node with modules.trusted_keys")
	f.BoolVar(&o.update, "update", false, "write what a build gives into the vector files, and show what that changes")
	f.BoolVar(&o.restore, "restore", false, "let what served before serve again at the end")
	cmd.RunE = existing(func(c *admin.Client, cmd *cobra.Command, args []string) (result, error) {
		l, err := o.open(c, args[0])
		if err != nil {
			return result{}, err
		}
		return result{value: pages(func(w io.Writer, asJSON bool) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return l.run(ctx, func(r devRound) { l.show(w, asJSON, r) })
		})}, nil
	})
	return cmd
}

type devOptions struct {
	build, config, key string
	update, restore    bool
}

// devLoop is one run of module dev.
type devLoop struct {
	devOptions
	node    *admin.Client
	project *devloop.Project
	signer  ed25519.PrivateKey // nil: builds are not signed

	slot       string
	before     string   // what served the slot at first, "" = nothing
	serving    string   // the digest of what serves it now
	configured string   // the SHA-256 of its configuration, "" = none
	earlier    []string // the builds of the last two rounds
	wrote      []string // vector files that this round wrote, which is no reason to build again
}

// devRound is what one save came to.
type devRound struct {
	State   string          `json:"state"` // serves, same, build, check, refused, restored
	Module  string          `json:"module,omitempty"`
	Digest  string          `json:"digest,omitempty"`
	BuildMS int64           `json:"build_ms"`
	LoadMS  int64           `json:"load_ms"`              // in the node, beside the check
	SavedMS int64           `json:"saved_ms,omitempty"`   // from the save until it served; 0 = it was not saved, but there
	Config  bool            `json:"configured,omitempty"` // the same file as before, with another configuration
	Said    string          `json:"said,omitempty"`       // by the compiler, the check or the node
	Vectors []string        `json:"vectors,omitempty"`    // whose want is another now
	Changed *capture.Report `json:"changed,omitempty"`    // captured requests, on the old and the new build
}

// States of a round.
const (
	devServes   = "serves"
	devSame     = "same"    // the same file and configuration as before
	devBuild    = "build"   // it does not build
	devCheck    = "check"   // it does not pass
	devRefused  = "refused" // the node did not take it
	devRestored = "restored"
)

func (o devOptions) open(c *admin.Client, dir string) (*devLoop, error) {
	l := &devLoop{devOptions: o, node: c}
	var err error
	if l.project, err = devloop.Open(dir, o.build); err != nil {
		return nil, err
	}
	if o.config != "" {
		l.project.Also = []string{o.config}
	}
	if o.key != "" {
		text, err := os.ReadFile(o.key)
		if err == nil {
			l.signer, err = check.ParseKey(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.key, err)
		}
	}
	var m struct {
		Kind, Protocol string
		Place          int
	}
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	if l.slot = m.Protocol; l.slot == "" {
		l.slot = guest.PolicySlot(m.Kind, m.Place)
	}
	l.before, err = l.active()
	l.serving = l.before
	return l, err
}

// active is what serves the slot in the node; configured is of it then.
func (l *devLoop) active() (digest string, err error) {
	all, err := l.node.Modules()
	for _, m := range all {
		if string(m.Slot) == l.slot && m.Serving && m.State != extensions.StateCanary {
			digest, l.configured = m.Digest, m.ConfigSHA256
		}
	}
	for _, m := range all { // after a start a native build serves until what ships is in memory
		if string(m.Slot) == l.slot && m.Shipped && m.State == extensions.StateLoading {
			digest, l.configured = m.Digest, ""
		}
	}
	return digest, err
}

// run builds what is there, then whatever is saved, until ctx ends.
func (l *devLoop) run(ctx context.Context, show func(devRound)) error {
	state, err := l.project.Look()
	saved := time.Time{}
	for err == nil {
		l.wrote = nil
		show(l.round(ctx, saved))
		for _, path := range l.wrote {
			state.Note(path)
		}
		before := state
		if state, err = l.project.Wait(ctx, before); err == nil {
			saved = state.Saved(before)
		}
	}
	if ctx.Err() == nil {
		return err
	}
	if l.restore && l.serving != l.before {
		if err := l.goBack(); err != nil {
			return fmt.Errorf("what served before does not serve again: %w", err)
		}
		l.serving = l.before
		show(devRound{State: devRestored, Digest: l.before})
	}
	l.tidy(l.serving)
	return nil
}

// goBack lets what served at first serve again. Where nothing did, the build before the last
// has to go too.
func (l *devLoop) goBack() error {
	if l.before != "" {
		_, err := l.node.ActivateModule(l.before)
		return err
	}
	for {
		m, err := l.node.Rollback(l.slot)
		if err != nil || m.Digest == "" {
			return err
		}
	}
}

// round builds, checks and swaps once.
func (l *devLoop) round(ctx context.Context, saved time.Time) (r devRound) {
	began := time.Now()
	module, err := l.project.Make(ctx)
	if err == nil && l.update {
		module, r.Vectors, err = l.updateVectors(module)
	}
	r.BuildMS = time.Since(began).Milliseconds()
	if err != nil {
		r.State, r.Said = devBuild, err.Error()
		if failed, ok := errors.AsType[*devloop.BuildError](err); ok {
			r.Said = failed.Output + failed.Error()
		}
		return r
	}
	began = time.Now()
	m, said, state := l.try(module)
	r.LoadMS, r.Said = time.Since(began).Milliseconds(), said
	if r.Module, r.Digest = m.Name+"@"+m.Version, m.Digest; state != "" {
		r.State = state
		return r
	}
	serves := m.Digest == l.serving && m.Serving // the node or somebody else may have ended that
	if serves {
		r.Config = m.ConfigSHA256 != l.configured
	} else if _, err := l.node.ActivateModule(m.Digest); err != nil {
		l.forget(m.Digest)
		r.State, r.Said = devRefused, err.Error()
		return r
	}
	if l.configured = m.ConfigSHA256; serves && !r.Config {
		r.State = devSame
		return r
	}
	r.State = devServes
	if !saved.IsZero() {
		r.SavedMS = time.Since(saved).Milliseconds()
	}
	if r.Config {
		return r
	}
	older := l.serving
	l.serving = m.Digest
	r.Changed = l.compare(older)
	l.tidy(older)
	return r
}

// try checks a module here and loads it into the node, both at once. state is "" when both took it.
func (l *devLoop) try(module []byte) (m extensions.Info, said, state string) {
	in := admin.NewModule{Wasm: module}
	var err error
	if in.Config, err = readConfig(l.config); err != nil {
		return m, err.Error(), devCheck
	}
	if len(in.Config) > 0 && !json.Valid(in.Config) {
		return m, l.config + " is not JSON", devCheck
	}
	if l.signer != nil {
		in.Signature = extensions.Sign(l.signer, module)
	}
	reported := make(chan *check.Report, 1)
	go func() {
		reported <- check.File(module, check.Options{Config: in.Config, Calls: devCalls, Quick: true}, nil)
	}()
	m, err = l.node.LoadModule(in)
	report := <-reported
	switch {
	case !report.Passed:
		if err == nil {
			l.forget(m.Digest)
		}
		return m, findings(report), devCheck
	case err != nil: // maybe only since the file serves with another configuration; this one passed
		return l.reconfigure(in, err)
	}
	return m, "", ""
}

// forget removes a build that does not come to serve, which is only tidy. The node keeps one that serves.
func (l *devLoop) forget(digest string) {
	if digest != l.serving && digest != l.before {
		_ = l.node.RemoveModule(digest)
	}
}

// reconfigure loads a file that has passed and that the node has with another configuration;
// why is the node's refusal.
func (l *devLoop) reconfigure(in admin.NewModule, why error) (m extensions.Info, said, state string) {
	if refused, ok := errors.AsType[*admin.Error](why); !ok || refused.Kind != admin.KindConflict {
		return m, why.Error(), devRefused
	}
	switch sum := sha256.Sum256(in.Wasm); {
	case l.config == "":
		return m, why.Error() + "\n  to do: give the configuration with --config", devRefused
	case l.restore && "sha256:"+hex.EncodeToString(sum[:]) == l.before:
		return m, "this file served before with another configuration, which --restore keeps\n" +
			"  to do: raise the version in manifest.json, or leave --restore out", devRefused
	}
	in.Reconfigure = true
	m, err := l.node.LoadModule(in)
	if err != nil {
		return m, err.Error(), devRefused
	}
	return m, "", ""
}

// devCalls is how many calls the growth of memory is looked at over; make looks at more.
const devCalls = 200

// findings is what of a report must be fixed.
func findings(r *check.Report) string {
	var text strings.Builder
	for _, s := range r.Stages {
		for _, f := range s.Findings {
			if f.Fix != "" {
				fmt.Fprintf(&text, "%s: %s\n  to do: %s\n", s.Name, f.What, f.Fix)
			}
		}
		if !s.Passed && s.More > 0 {
			fmt.Fprintf(&text, "%s: and %d more\n", s.Name, s.More)
		}
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// updateVectors writes what the module gives into the vector files, packs them, and says what that changed.
func (l *devLoop) updateVectors(module []byte) (packed []byte, changed []string, err error) {
	folder := l.project.Vectors()
	if folder == "" {
		return module, nil, nil
	}
	o := check.Options{Update: true, Calls: devCalls, Quick: true}
	if o.Files, err = vector.ReadDir(folder); err != nil {
		return nil, nil, err
	}
	if o.Config, err = readConfig(l.config); err != nil {
		return nil, nil, err
	}
	updated := check.File(module, o, nil).Updated
	if len(updated) == 0 {
		return module, nil, nil
	}
	for _, u := range updated {
		changed = append(changed, u.String())
	}
	if l.wrote, err = writeUpdated(o.Files, updated); err != nil {
		return nil, nil, err
	}
	packed, err = l.project.Pack()
	return packed, changed, err
}

// compare runs captured requests on the old and the new build; nil when nothing is captured.
func (l *devLoop) compare(older string) *capture.Report {
	if older == "" {
		return nil
	}
	if r, err := l.node.CompareModule(l.serving, older); err == nil && r.Requests > 0 {
		return &r
	}
	return nil
}

// tidy forgets the builds of this run but those that serve now and served just before;
// streams end on them.
func (l *devLoop) tidy(older string) {
	for _, digest := range l.earlier {
		if digest != "" && digest != older && digest != l.serving && digest != l.before {
			_ = l.node.RemoveModule(digest) // one that charges name stays on disk
		}
	}
	l.earlier = []string{older, l.serving}
}

// vectorsShown bounds the vectors that a person is shown of a round; JSON has all.
const vectorsShown = 12

// show prints a round for people, or as a line of JSON.
func (l *devLoop) show(w io.Writer, asJSON bool, r devRound) {
	if asJSON {
		_ = json.NewEncoder(w).Encode(r) // a reader that has gone is no reason to stop
		return
	}
	w = plainWriter{w}
	at := time.Now().Format(time.TimeOnly)
	switch r.State {
	case devServes:
		speed := ""
		if r.SavedMS > 0 {
			speed = fmt.Sprintf(", %.2f s after it was saved", float64(r.SavedMS)/1000)
		}
		if r.Config {
			speed = " with the new configuration" + speed
		}
		fmt.Fprintf(w, "%s %s %s serves %s%s (build %d ms, check and load %d ms)\n",
			at, r.Module, extensions.Abbreviate(r.Digest), l.slot, speed, r.BuildMS, r.LoadMS)
	case devSame:
		fmt.Fprintf(w, "%s %s is the file that serves, with the configuration that it has\n", at, r.Module)
	case devRestored:
		fmt.Fprintf(w, "%s what served before serves %s again\n", at, l.slot)
	default:
		what := map[string]string{devBuild: "it does not build", devCheck: "it does not pass",
			devRefused: "the node did not take it"}[r.State]
		fmt.Fprintf(w, "%s\n%s %s; %s serves as before\n", r.Said, at, what, orNothing(l.serving))
	}
	for _, text := range r.Vectors[:min(len(r.Vectors), vectorsShown)] {
		fmt.Fprintln(w, text)
	}
	if more := len(r.Vectors) - vectorsShown; more > 0 {
		fmt.Fprintf(w, "and %d more vectors whose want is another now\n", more)
	}
	if r.Changed != nil {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		printCompared(table, *r.Changed)
		_ = table.Flush()
	}
	if l.before != "" && !l.restore && l.serving != l.before { // the last line, whatever the round came to
		fmt.Fprintf(w, "  to go back: corenode module activate %s\n", extensions.Abbreviate(l.before))
	}
}

func orNothing(digest string) string {
	if digest == "" {
		return "nothing"
	}
	return extensions.Abbreviate(digest)
}
