package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/model"
	"corenode/engine/modelfile"
	"corenode/engine/template"
	"corenode/engine/tokenizer"
)

func modelCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "model", Short: "Look into a model file, its tokenizer and its logits, or convert it", Args: cobra.NoArgs,
		Example: "  corenode model inspect qwen3-0.6b-q8_0.gguf",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(inspectCommand(), verifyCommand(), convertCommand(), tokenizeCommand(), logitsCommand())
	return cmd
}

func inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use: "inspect PATH", Short: "Print the metadata and tensors of a GGUF file or a folder", Args: cobra.ExactArgs(1),
		Long: `Print the metadata and tensors of a GGUF file or a folder, and whether this node can
run it: if not, a line for each of tensors, tokenizer and chat template that says
why. The status is 0 all the same, and 1 where the file cannot be read. A prediction
layer counts, as it is loaded unless the configuration says "speculation: off".`,
		Example: "  corenode model inspect qwen3-0.6b-q8_0.gguf",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := modelfile.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			return inspect(cmd.OutOrStdout(), f)
		},
	}
}

// inspect prints what a file says of itself, and whether this node can run it.
func inspect(out io.Writer, f *modelfile.File) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	w := plainWriter{table}
	for _, v := range f.Keys() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", v.Key, v.TypeName(), v.Text())
	}
	fmt.Fprintln(w)
	var parameters, bytes int64
	for _, t := range f.Tensors() {
		name, _, _, _ := modelfile.TypeInfo(t.Type)
		fmt.Fprintf(w, "%s\t%s\t%v\t%d bytes at %d\n", t.Name, name, t.Shape, t.Size(), t.Offset)
		parameters += int64(t.Elements())
		bytes += int64(t.Size())
	}
	fmt.Fprintf(w, "\n%d tensors, %d parameters, %d bytes, digest %.16s\n", len(f.Tensors()), parameters, bytes, f.Digest())
	c, errs := checkModel(f)
	if c.Layers > 0 {
		fmt.Fprintf(w, "architecture %s, %d layers, context %d, vocabulary %d\n", f.Architecture(), c.Layers, c.ContextLength, c.Vocab)
	}
	if err := checkTemplate(f); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		fmt.Fprintln(w, "this node can run it")
	}
	for _, err := range errs {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintf(w, "this node cannot run it: %s\n", line)
		}
	}
	if err := wayOut(errs); err != nil {
		fmt.Fprintln(w, err)
	}
	return table.Flush()
}

// wayOut says how the node runs a file of which checkModel says this, nil where it cannot.
func wayOut(errs []error) error {
	if len(errs) != 1 || !errors.Is(errs[0], model.ErrPrediction) {
		return nil
	}
	return errors.New("with speculation: off it runs without that layer")
}

// checkModel says what of a file this node cannot run: its keys and tensors, its tokenizer. The config is
// that of a file whose keys are understood.
func checkModel(f *modelfile.File) (c model.Config, errs []error) {
	c, err := model.Check(f)
	if err != nil {
		errs = append(errs, err)
	}
	t, err := tokenizer.FromFile(f)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("its tokenizer: %w", err))
	case c.Layers > 0 && t.Size() > c.Vocab:
		errs = append(errs, fmt.Errorf("the tokenizer has %d entries, the model %d rows", t.Size(), c.Vocab))
	}
	return c, errs
}

// checkTemplate says why requests cannot be put into words by the file's chat template.
func checkTemplate(f *modelfile.File) error {
	source, err := f.String("tokenizer.chat_template")
	if err == nil {
		var parsed *template.Template
		if parsed, err = template.New(source); err == nil {
			err = parsed.Check(template.Input{GenerationPrompt: true})
		}
	}
	if err != nil {
		return fmt.Errorf("its chat template: %w; the configuration can name one", err)
	}
	return nil
}

func tokenizeCommand() *cobra.Command {
	var path string
	var decode, special bool
	cmd := &cobra.Command{
		Use: "tokenize --model PATH", Short: "Turn standard input into token ids, or ids into text", Args: cobra.NoArgs,
		Example: `  echo -n "Hello" | corenode model tokenize --model m.gguf
  echo "9707" | corenode model tokenize --model m.gguf --decode`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := modelfile.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			t, err := tokenizer.FromFile(f)
			if err != nil {
				return err
			}
			in, err := io.ReadAll(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return tokenize(cmd.OutOrStdout(), t, string(in), decode, special)
		},
	}
	cmd.Flags().StringVar(&path, "model", "", "GGUF file, or folder of safetensors")
	cmd.Flags().BoolVar(&decode, "decode", false, "read ids, print text")
	cmd.Flags().BoolVar(&special, "special", false, "match control tokens in the text, as a chat template's output")
	_ = cmd.MarkFlagRequired("model") // fails only for a flag that does not exist
	return cmd
}

func tokenize(out io.Writer, t *tokenizer.Tokenizer, in string, decode, special bool) error {
	if !decode {
		encode := t.Encode
		if special {
			encode = t.EncodePrompt
		}
		var b []byte
		for i, id := range encode(nil, in) {
			if i > 0 {
				b = append(b, ' ')
			}
			b = strconv.AppendInt(b, int64(id), 10)
		}
		_, err := out.Write(append(b, '\n'))
		return err
	}
	ids, err := parseIDs(in, t.Size())
	if err != nil {
		return err
	}
	d := t.NewDecoder(false)
	var text strings.Builder
	for _, id := range ids {
		text.WriteString(d.Feed(id))
	}
	text.WriteString(d.Flush())
	_, err = io.WriteString(out, text.String())
	return err
}

// parseIDs reads token ids separated by spaces, commas or line ends.
func parseIDs(s string, size int) (ids []int32, err error) {
	for field := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' || r == '\r' }) {
		id, err := strconv.Atoi(field)
		if err != nil || id < 0 || id >= size {
			return nil, fmt.Errorf("token %q is not an id from 0 to %d", field, size-1)
		}
		ids = append(ids, int32(id))
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("no token ids given")
	}
	return ids, nil
}

func logitsCommand() *cobra.Command {
	var path, tokens, level string
	var top, greedy, threads int
	var quantize bool
	cmd := &cobra.Command{
		Use: "logits --model PATH --tokens 1,2,3", Short: "Compute logits after each token of a prompt", Args: cobra.NoArgs,
		Long: `Compute the logits after each token of a prompt, and a greedy continuation,
with float32 keys and values. The JSON has the field names of the recordings
that the parity tests compare with.`,
		Example: "  corenode model logits --model m.gguf --tokens 1,2,3 --top 5 --greedy 16 --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := modelfile.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			b, err := cpu.New(cpu.Options{Threads: threads, Level: level, Exact: !quantize})
			if err != nil {
				return err
			}
			trace, err := traceModel(f, b, tokens, top, greedy)
			if err != nil {
				return err
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(trace)
			}
			return printTrace(cmd.OutOrStdout(), trace)
		},
	}
	f := cmd.Flags()
	f.StringVar(&path, "model", "", "GGUF file, or folder of safetensors")
	f.StringVar(&tokens, "tokens", "", "token ids of the prompt, separated by commas")
	f.IntVar(&top, "top", 5, "largest logits to print per position")
	f.IntVar(&greedy, "greedy", 0, "tokens to continue greedily")
	f.Bool("json", false, "print JSON")
	f.IntVar(&threads, "threads", 0, "threads, 0 = one per processor")
	f.StringVar(&level, "level", "", "kernel level: amx, avx512vnni, avx2 (arm64: dotprod, neon), portable; empty = the best here")
	mayBeEmpty(cmd, "level")
	f.BoolVar(&quantize, "quantize-activations", true, "round activations to 8 bits where weights are quantized, as serving does")
	for _, name := range []string{"model", "tokens"} {
		_ = cmd.MarkFlagRequired(name) // fails only for a flag that does not exist
	}
	return cmd
}

// tracePage is the page size of the one sequence that a trace computes.
const tracePage = 32

func traceModel(f *modelfile.File, b kernel.Backend, tokens string, top, greedy int) (*model.Trace, error) {
	m, err := model.Load(f, b)
	if err != nil {
		b.Close()
		return nil, err
	}
	defer m.Close()
	ids, err := parseIDs(tokens, m.Config().Vocab)
	if err != nil {
		return nil, err
	}
	if top < 1 || greedy < 0 {
		return nil, fmt.Errorf("--top %d and --greedy %d: want at least 1 and 0", top, greedy)
	}
	pages := (len(ids) + greedy + tracePage - 1) / tracePage
	cache, err := b.NewCache(m.CacheConfig(tracePage, pages, 1, kernel.KVF32))
	if err != nil {
		return nil, err
	}
	return model.RunTrace(m, cache, tracePage, ids, top, greedy)
}

func printTrace(out io.Writer, t *model.Trace) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(what string, i int, d model.Distribution) {
		fmt.Fprintf(w, "%s %d\tlse %.4f", what, i, d.LSE)
		for _, c := range d.Top {
			fmt.Fprintf(w, "\t%d: %.4f", c.ID, c.Logit)
		}
		fmt.Fprintln(w)
	}
	for i, d := range t.Positions {
		line("prompt", i, d)
	}
	for i, d := range t.Greedy {
		line("greedy", i, d)
	}
	if len(t.GreedyTokens) > 0 {
		fmt.Fprintf(w, "greedy tokens\t%v\n", t.GreedyTokens)
	}
	return w.Flush()
}
