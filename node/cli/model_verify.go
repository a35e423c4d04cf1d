package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"corenode/engine/modelfile"
)

func verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify PATH", Short: "Read every number of a model file and prove that this node can run it", Args: cobra.ExactArgs(1),
		Long: `Read a GGUF file or a folder of safetensors from end to end: the tensors are within
the file, they are those of an architecture that this node computes, every number is
one and the tokenizer can be built. The status is 1 where something is wrong; tensors
are named. A prediction layer counts, as it is loaded unless the configuration says
"speculation: off".`,
		Example: "  corenode model verify qwen3-0.6b-q8_0.gguf",
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.SilenceUsage = true
			f, err := modelfile.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			return verifyModel(cmd.OutOrStdout(), f, bar(cmd.ErrOrStderr()))
		},
	}
}

// verifyModel reads all of a file. progress is told how many of all values are read.
func verifyModel(out io.Writer, f *modelfile.File, progress func(done, all int64)) error {
	c, errs := checkModel(f)
	if len(errs) > 0 {
		return fmt.Errorf("this node cannot run it: %w", errors.Join(append(errs, wayOut(errs))...))
	}
	var done, all int64
	for _, t := range f.Tensors() {
		all += int64(t.Elements())
	}
	for _, t := range f.Tensors() {
		values := make([]float32, t.Elements())
		if err := modelfile.Dequantize(values, t.Type, t.Bytes()); err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		if at := slices.IndexFunc(values, func(x float32) bool { return x-x != 0 }); at >= 0 {
			return fmt.Errorf("tensor %s: value %d is %v", t.Name, at, values[at])
		}
		done += int64(t.Elements())
		progress(done, all)
	}
	_, err := fmt.Fprintf(plainWriter{out},
		"%d tensors, %d numbers: all are numbers; architecture %s, %d layers, context %d, vocabulary %d\n",
		len(f.Tensors()), all, f.Architecture(), c.Layers, c.ContextLength, c.Vocab)
	return err
}
