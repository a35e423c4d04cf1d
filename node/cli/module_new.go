package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"corenode/wasm/builtin"
)

func moduleNew() *cobra.Command {
	var kind, lang string
	cmd := &cobra.Command{
		Use: "new NAME", Short: "Write the project of a new module", Args: cobra.ExactArgs(1),
		Long: `Write a folder NAME with a module that works: its source, manifest, golden vectors,
the SDK and a README that says how to build it. Nothing that exists is overwritten.`,
		Example: `  corenode module new --kind billing --lang go discount
  corenode module new --kind translator --lang c my-protocol`,
	}
	cmd.Flags().StringVar(&kind, "kind", "", strings.Join(builtin.Kinds(), ", ")+"; those of two words not in every language")
	cmd.Flags().StringVar(&lang, "lang", "go", "language: go, c, rust or assemblyscript")
	_ = cmd.MarkFlagRequired("kind") // the flag exists
	cmd.RunE = offline(func(_ *cobra.Command, args []string) (result, error) {
		dir := args[0]
		files, err := builtin.Project(kind, lang, filepath.Base(dir))
		if err != nil {
			return result{}, err
		}
		names := slices.Sorted(maps.Keys(files))
		if err := writeProject(dir, files); err != nil {
			return result{}, err
		}
		return result{map[string]any{"folder": dir, "files": names}, func(w io.Writer) {
			printProject(w, dir, names)
		}}, nil
	})
	return cmd
}

// printProject says what is there and what to type next. The files of the kit
// are not listed: nobody edits them.
func printProject(w io.Writer, dir string, names []string) {
	fmt.Fprintf(w, "The project is in %s:\n", dir)
	for _, name := range names {
		if !strings.HasPrefix(name, "corenode/") {
			fmt.Fprintf(w, "  %s\n", name)
		}
	}
	fmt.Fprintf(w, "  corenode/  the kit, with AUTHORING.md\n\nBuild and check it:\n\n  cd %s && make%s\n", dir, makeArgument())
}

// makeArgument tells make where this program is when the shell would not find it.
func makeArgument() string {
	self, err := os.Executable()
	if _, notFound := exec.LookPath("corenode"); err != nil || notFound == nil {
		return ""
	}
	return " CORENODE=" + self
}

// writeProject writes files, whose names are slashed paths, below a folder that
// must not be there yet. What a failure leaves is removed.
func writeProject(dir string, files map[string][]byte) (err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := writeNew(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
