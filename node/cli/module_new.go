package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

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
  corenode module new --kind translator --lang c completions`,
	}
	cmd.Flags().StringVar(&kind, "kind", "", "translator, billing or admission")
	cmd.Flags().StringVar(&lang, "lang", "go", "language: go or c")
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
			fmt.Fprintf(w, "The project is in %s:\n", dir)
			for _, name := range names {
				fmt.Fprintf(w, "  %s\n", name)
			}
			fmt.Fprintf(w, "Its README.md says how to build it.\n")
		}}, nil
	})
	return cmd
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
