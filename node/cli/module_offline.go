package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"corenode/extensions/check"
	"corenode/extensions/vector"
)

// offlineVerbs are the commands that work on files and need no node.
func offlineVerbs() []*cobra.Command {
	return []*cobra.Command{moduleNew(), modulePack(), moduleCheck(), moduleBench(), moduleKeygen(), moduleSign()}
}

// offline runs an action that touches neither node nor data folder.
func offline(do func(cmd *cobra.Command, args []string) (result, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cmd.SilenceUsage = true // from here on the call was well formed
		done, err := do(cmd, args)
		if done.text != nil {
			err = errors.Join(show(cmd, done), err)
		}
		return err
	}
}

func modulePack() *cobra.Command {
	var manifest, vectors, output string
	cmd := &cobra.Command{
		Use: "pack FILE", Short: "Put manifest and golden vectors into a module file", Args: cobra.ExactArgs(1),
		Long: `Put the manifest, and with --vectors the golden vectors of a folder, into a module
file as the custom sections that a node reads, in place of those it has. A
signature is of the whole file: sign after packing.`,
		Example: `  corenode module pack discount.wasm --manifest manifest.json --vectors vectors/
  corenode module pack build/raw.wasm --manifest manifest.json --output discount.wasm`,
	}
	f := cmd.Flags()
	f.StringVar(&manifest, "manifest", "manifest.json", "manifest `file`")
	f.StringVar(&vectors, "vectors", "", "`folder` of vector files (default: the file keeps the vectors it has)")
	f.StringVarP(&output, "output", "o", "", "`file` to write (default FILE itself)")
	cmd.RunE = offline(func(_ *cobra.Command, args []string) (result, error) {
		if output == "" {
			output = args[0]
		}
		return pack(args[0], manifest, vectors, output)
	})
	return cmd
}

func pack(file, manifestFile, folder, output string) (result, error) {
	module, err := os.ReadFile(file)
	if err != nil {
		return result{}, err
	}
	manifest, err := os.ReadFile(manifestFile)
	if err != nil {
		return result{}, err
	}
	var section []byte
	if folder != "" {
		if section, err = vector.Pack(folder); err != nil {
			return result{}, err
		}
	}
	packed, err := check.Pack(module, manifest, section)
	if err != nil {
		return result{}, fmt.Errorf("pack %s: %w", file, err)
	}
	if err := os.WriteFile(output, packed, 0o644); err != nil {
		return result{}, err
	}
	return result{map[string]any{"file": output, "size": len(packed)}, func(w io.Writer) {
		fmt.Fprintf(w, "%s has %d bytes.\n", output, len(packed))
	}}, nil
}

// errNotPassed makes the status 1; the report has told why.
var errNotPassed = errors.New("the module must be fixed")

func moduleCheck() *cobra.Command {
	var folder, config string
	var update bool
	var calls int
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Try a module the way a node would, and say what must be fixed", Args: cobra.ExactArgs(1),
		Long: `Take a module through the whole load path without a node, then try what a node
would meet: the golden vectors in it and those of --vectors, every stream at every
cut; the same calls on fresh and used instances; input that no client should send;
many calls in a row; for billing the rules of every charge; and, without
--vectors, what a node with trusted keys does before it takes a module. A vector
of the folder replaces the module's of the same name. The signature is not looked
at. The status is 1 when something must be fixed.

With --update the wants of the vectors in the folder become what the module
gives, and the files with one that changed are written, but none that was saved
meanwhile: read the difference before you keep it. With --json the counts of ticks are exact and repeat, so they
can be compared from build to build.`,
		Example: `  corenode module check discount.wasm --vectors vectors/
  corenode module check discount.wasm --vectors vectors/ --update
  corenode module check discount.wasm --json > check.json`,
	}
	f := cmd.Flags()
	f.StringVar(&folder, "vectors", "", "`folder` of vector files to run as well")
	f.StringVar(&config, "config", "", "JSON `file` for the module's own configuration")
	f.BoolVar(&update, "update", false, "write what the module gives into the vector files")
	f.IntVar(&calls, "calls", 0, "calls over which the growth of memory is measured (default 20000)")
	logFlag(cmd)
	cmd.RunE = offline(func(cmd *cobra.Command, args []string) (result, error) {
		if update && folder == "" {
			return result{}, errors.New("--update needs --vectors")
		}
		if calls < 0 {
			return result{}, fmt.Errorf("--calls is %d, want 0 for the default or more", calls)
		}
		o := check.Options{Update: update, Calls: calls}
		return checkFile(args[0], folder, config, o, guestLog(cmd))
	})
	return cmd
}

func checkFile(file, folder, config string, o check.Options, log *slog.Logger) (_ result, err error) {
	module, err := os.ReadFile(file)
	if err != nil {
		return result{}, err
	}
	if o.Config, err = readConfig(config); err != nil {
		return result{}, err
	}
	if folder != "" {
		if o.Files, err = vector.ReadDir(folder); err != nil {
			return result{}, err
		}
	}
	report := check.File(module, o, log)
	if o.Update {
		if _, err := writeUpdated(o.Files, report.Updated); err != nil {
			return result{}, err
		}
	}
	if !report.Passed {
		err = errNotPassed
	}
	return result{report, report.Write}, err
}

// writeUpdated writes the files that have a vector whose want is another now; the others stay as they are laid out.
func writeUpdated(files []vector.File, updated []check.Updated) (wrote []string, err error) {
	for _, f := range files {
		changed := slices.ContainsFunc(f.Vectors, func(v vector.Vector) bool {
			return slices.ContainsFunc(updated, func(u check.Updated) bool { return u.Name == v.Name })
		})
		if !changed {
			continue
		}
		if err := f.Write(); err != nil {
			return wrote, err
		}
		wrote = append(wrote, f.Path)
	}
	return wrote, nil
}

// readConfig reads a module's configuration; no name is none.
func readConfig(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	return os.ReadFile(file)
}

// guestLog takes what a module logs, if its author asks for it.
func guestLog(cmd *cobra.Command) *slog.Logger {
	if wanted, err := cmd.Flags().GetBool("log"); err != nil || !wanted {
		return nil
	}
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func logFlag(cmd *cobra.Command) { cmd.Flags().Bool("log", false, "print what the module logs") }

func moduleBench() *cobra.Command {
	var config string
	var each time.Duration
	cmd := &cobra.Command{
		Use: "bench FILE", Short: "Measure what the usual calls of a module cost", Args: cobra.ExactArgs(1),
		Long: `Measure the usual calls of a module in this process: the time as the median of
five rounds, and the ticks, which are the same on every machine. Beside it stands
the native build of the shipped module for the same slot, in the same run.`,
		Example: `  corenode module bench discount.wasm
  corenode module bench chat.wasm --time 2s --json`,
	}
	cmd.Flags().StringVar(&config, "config", "", "JSON `file` for the module's own configuration")
	cmd.Flags().DurationVar(&each, "time", 300*time.Millisecond, "time for each kind of call")
	logFlag(cmd)
	cmd.RunE = offline(func(cmd *cobra.Command, args []string) (result, error) {
		module, err := os.ReadFile(args[0])
		if err != nil {
			return result{}, err
		}
		own, err := readConfig(config)
		if err != nil {
			return result{}, err
		}
		figures, err := check.Bench(module, own, each, guestLog(cmd))
		if err != nil {
			return result{}, err
		}
		return result{figures, func(w io.Writer) { check.WriteFigures(w, figures) }}, nil
	})
	return cmd
}

func moduleKeygen() *cobra.Command {
	return &cobra.Command{
		Use: "keygen FILE", Short: "Make a key that signs modules", Args: cobra.ExactArgs(1),
		Long: `Make an ed25519 key. The private half is written to FILE, for its owner only; keep
it away from the node. The public half is printed as the configuration of every
node takes it that shall accept modules signed with this key.`,
		Example: `  corenode module keygen signing.pem`,
		RunE: offline(func(cmd *cobra.Command, args []string) (result, error) {
			private, public, err := check.NewKey()
			if err != nil {
				return result{}, err
			}
			if err := writeNew(args[0], private, 0o600); err != nil {
				return result{}, err
			}
			signal.Ignore(syscall.SIGPIPE) // it is an error of the write
			shown := result{map[string]string{"file": args[0], "public_key": public}, func(w io.Writer) {
				fmt.Fprintf(w, "The private key is in %s. In the configuration of a node:\nmodules:\n  trusted_keys: [%q]\n",
					args[0], public)
			}}
			if err := show(cmd, shown); err != nil { // nobody could use it: the public half is nowhere else
				return result{}, fmt.Errorf("no key was made: %w", errors.Join(err, os.Remove(args[0])))
			}
			return result{}, nil
		}),
	}
}

// writeNew writes a file that must not be there yet, whole or not at all.
func writeNew(path string, content []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

func moduleSign() *cobra.Command {
	var keyFile string
	cmd := &cobra.Command{
		Use: "sign FILE", Short: "Sign a module file", Args: cobra.ExactArgs(1),
		Long:    "Write the signature of a module to FILE.sig, where load finds it. Any change of FILE afterwards makes it void.",
		Example: `  corenode module sign --key signing.pem discount.wasm`,
	}
	cmd.Flags().StringVar(&keyFile, "key", "", "private key `file` that keygen made")
	_ = cmd.MarkFlagRequired("key") // the flag exists
	cmd.RunE = offline(func(_ *cobra.Command, args []string) (result, error) {
		text, err := os.ReadFile(keyFile)
		if err != nil {
			return result{}, err
		}
		key, err := check.ParseKey(text)
		if err != nil {
			return result{}, fmt.Errorf("%s: %w", keyFile, err)
		}
		module, err := os.ReadFile(args[0])
		if err != nil {
			return result{}, err
		}
		signature, err := check.Sign(key, module)
		if err != nil {
			return result{}, fmt.Errorf("%s: %w", args[0], err)
		}
		file := args[0] + ".sig"
		if err := os.WriteFile(file, signature, 0o644); err != nil {
			return result{}, err
		}
		return result{map[string]string{"signature": file}, func(w io.Writer) { fmt.Fprintf(w, "The signature is in %s.\n", file) }}, nil
	})
	return cmd
}
