package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"corenode/engine/kernel"
	"corenode/engine/model"
	"corenode/engine/modelfile"
	"corenode/engine/tokenizer"
)

// convertTypes are the types that matrices are converted to.
var convertTypes = map[string]kernel.Type{"f16": kernel.F16, "q8_0": kernel.Q8_0, "q4_k": kernel.Q4_K}

func convertCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "convert PATH OUT.gguf", Short: "Write a folder of safetensors, or a GGUF file, as one GGUF file", Args: cobra.ExactArgs(2),
		Long: `Write a folder of safetensors, or a GGUF file in one or several parts, as one GGUF
file with its matrices in another type. A node serves folders as they are: this
is for less memory and more speed, and for other programs. An OUT.gguf that exists
is replaced, and of a link the file that it leads to; what is no file is refused.`,
		Example: "  corenode model convert Qwen3-0.6B qwen3-0.6b-q8_0.gguf --type q8_0",
		RunE: func(cmd *cobra.Command, args []string) error {
			typ, ok := convertTypes[name]
			if !ok {
				return fmt.Errorf("--type is %q, want f16, q8_0 or q4_k", name)
			}
			cmd.SilenceUsage = true
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // a file of gigabytes is to go
			defer stop()
			return convert(ctx, args[0], args[1], typ, bar(cmd.ErrOrStderr()))
		},
	}
	cmd.Flags().StringVar(&name, "type", "q8_0", "type of the matrices: f16, q8_0 or q4_k")
	return cmd
}

// endingWriter writes until its context ends.
type endingWriter struct {
	ctx context.Context
	to  io.Writer
}

func (w endingWriter) Write(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.to.Write(p)
}

// replaceable is the path of the file that a rename to out is to replace, which need not be there. A rename takes
// the place of whatever has the name: of a link and not of where it leads, and of a device.
func replaceable(out string) (string, error) {
	path, err := filepath.EvalSymlinks(out)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(out); err == nil {
			return "", fmt.Errorf("%s is a link to what is not there: name the file itself", out)
		}
		return out, nil
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is there and no regular file: name another", out)
	}
	return path, err
}

// convert writes beside out first, so that out is whole or what it was before.
func convert(ctx context.Context, path, out string, typ kernel.Type, progress func(done, all int64)) error {
	out, err := replaceable(out)
	if err != nil {
		return err
	}
	f, err := modelfile.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	config, err := model.ReadConfig(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	words, err := tokenizer.Metadata(f, config.Vocab)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(out), "."+filepath.Base(out)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // nothing is there after the rename
	defer file.Close()
	w := bufio.NewWriterSize(endingWriter{ctx, file}, 1<<20)
	if err := modelfile.Convert(w, f, typ, words, progress); err != nil {
		return fmt.Errorf("convert %s: %w", path, err)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := file.Chmod(0o644); err != nil { // as any other file, and not only its owner's
		return err
	}
	if err := file.Sync(); err != nil { // a rename may be kept before what was written
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), out)
}

// bar draws how far something is, if out is a terminal, until it is done.
func bar(out io.Writer) func(done, all int64) {
	if !isScreen(out) {
		return func(int64, int64) {}
	}
	return drawBar(out)
}

func drawBar(out io.Writer) func(done, all int64) {
	const width = 40
	shown := int64(-1)
	return func(done, all int64) {
		percent := done * 100 / max(all, 1)
		if percent == shown {
			return
		}
		shown = percent
		full := int(percent) * width / 100
		fmt.Fprintf(out, "\r[%s%s] %d %%", strings.Repeat("#", full), strings.Repeat(" ", width-full), percent)
		if done == all {
			fmt.Fprintln(out)
		}
	}
}
