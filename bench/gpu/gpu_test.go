package gpu

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/interp"
	"corenode/engine/kernel/cuda/tune"
	"corenode/engine/model"
	"corenode/engine/modelfile"
	"corenode/engine/tokenizer"
)

// tiny is a shape that the interpreter computes in a second.
func tiny() Options {
	o := Defaults()
	o.Shape = Shape{Layers: 4, Hidden: 64, Heads: 4, KVHeads: 2, HeadDim: 64, KHeads: 2, VHeads: 4, StateDim: 64,
		Experts: 6, ExpertsUsed: 2, Width: 64, Vocabulary: 128}
	o.Interpret, o.Steps, o.Copy, o.Product, o.Rows = true, 1, 1, 64, 64
	return o
}

func TestWeightsOfTheTargetShape(t *testing.T) {
	s := Defaults().Shape
	w := weightsOf(s, s.tensors(types["bf16"]))
	for name, x := range map[string][2]float64{
		"values of an expert":     {float64(w.ExpertValues), 3 * 512 * 2048},
		"bytes of an expert":      {float64(w.Expert), 2 * 3 * 512 * 2048},
		"values of the head":      {float64(w.HeadValues), 248320 * 2048},
		"active values, in 1e9":   {math.Round(float64(w.DenseValues+w.HeadValues+320*w.ExpertValues)/1e7) / 100, 2.95},
		"bytes of all, in 1e9":    {math.Round(float64(w.Total) / 1e9), 69},
		"bytes that a step reads": {math.Round(float64(w.Dense) / 1e7), 291}, // its routers are float32
	} {
		if x[0] != x[1] {
			t.Errorf("%s: %v, want %v", name, x[0], x[1])
		}
	}
}

func TestFloorsOfTheTargetShape(t *testing.T) {
	s := Defaults().Shape
	w := weightsOf(s, s.tensors(types["bf16"]))
	const state, token = 65_900_000, 20480
	// By hand: 2.9 GB dense, 8 x 40 experts of 6.29 MB, 1.02 GB head, 0.13 GB states, 0.08 GB K and V.
	for batch, want := range map[int][2]float64{1: {8, 6.1}, 64: {222, 73.5}, 256: {256, 122.7}} {
		b := stepBytes(s, w, batch, 4096, want[0], state, token)
		if gb := float64(b.Sum()) / 1e9; math.Abs(gb-want[1]) > 0.02*want[1] {
			t.Errorf("batch %d: %.2f GB, want %.1f", batch, gb, want[1])
		}
	}
	if b := stepBytes(s, w, 2, 100, 8, 1000, 10); b.States != 4000 || b.KV != 2000 {
		t.Errorf("states %d, K and V %d; want both read and written, and every token of both", b.States, b.KV)
	}
	if tflop := promptFLOP(s, w, 8192) / 1e12; math.Abs(tflop-46.9) > 0.5 {
		t.Errorf("a prompt of 8k is %.1f TFLOP, want 46.9", tflop)
	}
	if ms := milliseconds(4.3e9, 4300, 1e9); math.Abs(ms-1) > 1e-12 {
		t.Errorf("4.3 GB at 4300 GB/s take %v ms, want 1", ms)
	}
}

// TestGatesAreOfTheType: the same share of the floor is enough in FP8, and not in bf16.
func TestGatesAreOfTheType(t *testing.T) {
	for typ, met := range map[string]bool{"fp8": true, "bf16": false, "q8_0": true} {
		r := Report{Options: Defaults(), Cells: []Cell{{Name: "decode", Batch: 16, Context: gateContext, Share: 0.55}}}
		r.Options.Type = typ
		if r.judge(); r.Met() != met || (len(r.Gates) == 0) != (typ == "q8_0") {
			t.Errorf("%s: gates %v", typ, r.Gates)
		}
	}
}

// TestAGateThatWasNotMeasuredIsMissed: a cell or streams that were asked for and left out miss their gates, and where no
// gate applies the run passes and says so.
func TestAGateThatWasNotMeasuredIsMissed(t *testing.T) {
	const why = "not run: no time was left"
	met := Cell{Name: "met", Batch: 16, Context: gateContext, Share: 0.9}
	left := Report{Cells: []Cell{met, {Name: "decode", Batch: 64, Context: gateContext, Skipped: why}}}
	prompt := Report{Cells: []Cell{met, {Name: "prefill", Prompt: true, Batch: 1, Context: gatePrompt, Skipped: why}}}
	streams := Report{Cells: []Cell{met}, Served: []Served{{Streams: gateStreams, Bare: 9, Skipped: why}}}
	pending := Report{Cells: []Cell{met}, Served: []Served{{Streams: gateStreams, Bare: 9}}} // the node comes later
	other := Report{Cells: []Cell{{Name: "decode", Batch: 64, Context: 1024, Skipped: why}}, Served: []Served{{Streams: 256, Skipped: why}}}
	for _, c := range []struct {
		name   string
		r      Report
		change func(*Options)
		met    bool
		says   string
	}{
		{"a cell", left, func(*Options) {}, false, ""},
		{"a prompt", prompt, func(*Options) {}, false, ""},
		{"a prompt in FP8 has none", prompt, func(o *Options) { o.Type = "fp8" }, true, ""},
		{"streams", streams, func(*Options) {}, false, ""},
		{"streams that are still to come", pending, func(*Options) {}, true, ""},
		{"what has none", other, func(*Options) {}, true, "no gate applies to what was asked for"},
		{"half of the layers", left, func(o *Options) { o.Layers = 20 }, true, "no gate applies to another shape"},
		{"another type", left, func(o *Options) { o.Type = "q8_0" }, true, "no gate applies to matrices in q8_0"},
		{"a rehearsal", left, func(o *Options) { o.Interpret = true }, true, "no gate applies to the interpreter"},
	} {
		r, out := c.r, bytes.Buffer{}
		r.Options = Defaults()
		c.change(&r.Options)
		r.judge()
		err := r.Print(&out)
		if r.Met() != c.met || err != nil || strings.Contains(out.String(), "no gate applies") != (c.says != "") ||
			!strings.Contains(out.String(), c.says) {
			t.Errorf("%s: met %v, want %v and %q: %v\n%s", c.name, r.Met(), c.met, c.says, err, out.String())
		}
	}
}

func TestDifferentExperts(t *testing.T) {
	logits := []float32{
		3, 2, 1, 0, // 0 and 1
		1, 1, 1, 1, // the lower of equals
		0, 5, 0, 4, // 1 and 3
	}
	if n := different(logits, 4, 2); n != 3 {
		t.Errorf("%d experts, want 0, 1 and 3", n)
	}
}

func TestCellsComeByImportance(t *testing.T) {
	o := Defaults()
	cells, err := o.cells()
	if err != nil || len(cells) != len(decodeDefault)+len(prefillDefault) {
		t.Fatalf("%d cells, %v", len(cells), err)
	}
	if cells[0].name() != "decode 64 x 4k" || cells[4].name() != "prefill 8k" {
		t.Errorf("first %s, fifth %s", cells[0].name(), cells[4].name())
	}
	o.Decode = []string{"3x100"}
	if cells, err = o.cells(); err != nil || len(cells) != 1 || cells[0] != (cell{batch: 3, context: 100}) {
		t.Errorf("asked for one: %+v, %v", cells, err)
	}
	for _, wrong := range []string{"4k", "0x4k", "300x1k", "1x", "1x512k"} {
		o.Decode = []string{wrong}
		if _, err = o.cells(); err == nil {
			t.Errorf("%s was taken", wrong)
		}
	}
}

func TestPatternsRepeatToTheByte(t *testing.T) {
	p := make([]byte, 10*34)
	for i := range p {
		p[i] = byte(i / 34)
	}
	var all []byte
	for _, piece := range repeated(p, 25*34, 8, 34) {
		all = append(all, piece...)
	}
	if len(all) != 25*34 || all[0] != 5 || all[34*5] != 0 {
		t.Errorf("%d bytes that begin with block %d, then %d; want 850, 5 and 0", len(all), all[0], all[34*5])
	}
}

// TestRehearsal measures a decoding cell and a prompt on the interpreter: what it says means nothing, that
// it is all there does.
func TestRehearsal(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 3 s")
	}
	o := tiny()
	o.Decode, o.Prefill = []string{"2x5", "1x200k"}, []string{"3"}
	o.Each, o.Page = filepath.Join(t.TempDir(), "each.json"), filepath.Join(t.TempDir(), "page.html")
	r, err := Run(context.Background(), o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Cells) != 3 || r.CopyGBs <= 0 || r.Own <= 0 || len(r.Gates) != 0 || !r.Met() {
		t.Fatalf("%d cells, ceilings %+v, gates %v", len(r.Cells), r.Ceilings, r.Gates)
	}
	for _, c := range r.Cells {
		if c.Context > 1000 {
			if c.Skipped == "" {
				t.Errorf("%s was measured", c.Name)
			}
			continue
		}
		if c.Skipped != "" || c.Milliseconds.Median <= 0 || c.Share <= 0 || len(c.Kernels) == 0 {
			t.Errorf("%+v: nothing was measured", c)
		}
		if !c.Prompt && (c.ExpertsHit < 2 || c.ExpertsHit > 6) {
			t.Errorf("%s: %v experts hit, want 2 to 6", c.Name, c.ExpertsHit)
		}
	}
	var out bytes.Buffer
	if err := r.Print(&out); err != nil || !strings.Contains(out.String(), "decode 2 x 5") || !strings.Contains(out.String(), "KERNEL") {
		t.Errorf("print: %v\n%s", err, out.String())
	}
	if html, err := os.ReadFile(o.Page); err != nil || !bytes.Contains(html, []byte("decode 2 x 5")) {
		t.Errorf("page: %v", err)
	}
	text, err := os.ReadFile(o.Each)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || back.Schema != Schema || len(back.Cells) != len(r.Cells) {
		t.Errorf("JSON comes back as %+v, %v", back, err)
	}
}

func TestACellThatFailsIsTold(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter of GPU kernels takes 1 s")
	}
	o := tiny()
	o.Decode, o.Each = []string{"1x5", "1x6"}, filepath.Join(t.TempDir(), "each.json")
	device := interp.Open(interp.Config{Seed: 1, Workers: 2, Memory: interpretedMemory})
	said := 0
	say := func(string, ...any) { // first of the device, then of each cell
		if said++; said == 2 {
			device.Inject(interp.StickyFault, 3)
		}
	}
	_, err := runOn(context.Background(), o, say, func() (cuda.Driver, error) { return device, nil })
	if err == nil || !strings.Contains(err.Error(), "decode 1 x 6") {
		t.Errorf("the run ends with %v, want an error of the second cell", err)
	}
	text, err := os.ReadFile(o.Each)
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil || len(r.Cells) != 2 || r.Cells[0].Share <= 0 || r.Cells[1].Skipped == "" {
		t.Errorf("what was kept is %+v, %v", r.Cells, err)
	}
}

func TestTokensCountWhileAllStreamsRun(t *testing.T) {
	s := func(seconds ...float64) (all []time.Duration) {
		for _, x := range seconds {
			all = append(all, time.Duration(x*float64(time.Second)))
		}
		return all
	}
	gaps := s(1, 1, 1)
	answers := []answer{
		answerOf(s(0)[0], gaps, 4), answerOf(s(2)[0], gaps, 4), // at 0 to 3 and at 2 to 5
		answerOf(s(1.5)[0], s(0.5), 2), // ended early, at 2
	}
	// Of the window from 2 to 3 one event of each of the first two is inside.
	rate, window := steady(answers, 4)
	if rate != 2 || window != time.Second {
		t.Errorf("%v tokens a second in %v, want 2 in 1 s", rate, window)
	}
	if ms := gapsWithin(answers, window); !slices.Equal(ms, []float64{1000, 1000}) {
		t.Errorf("gaps %v, want two of a second", ms)
	}
	one := Served{Tokens: 3}
	if one.answered([]answer{answerOf(0, s(1, 2), 3)}, nil); one.GapP50 != 1000 || one.GapP99 != 2000 {
		t.Errorf("of gaps of 1 and 2 s the median is %v ms by nearest rank, the 99th percentile %v ms", one.GapP50, one.GapP99)
	}
	twice := answer{outputs: s(0, 1), tokens: 4} // two tokens an event
	if rate, _ := steady([]answer{twice}, 4); rate != 2 {
		t.Errorf("%v tokens a second, want the two of the event behind the first", rate)
	}
	for name, all := range map[string][]answer{
		"none": nil, "never at once": {answerOf(s(0)[0], gaps, 4), answerOf(s(9)[0], gaps, 4)}, "all ended early": {answerOf(0, gaps, 4)},
	} {
		asked := 4
		if name == "all ended early" {
			asked = 100
		}
		if rate, window := steady(all, asked); rate != 0 || window != 0 {
			t.Errorf("%s: %v tokens a second in %v", name, rate, window)
		}
	}
}

// TestStreamsOfTheNodeDrawAsTheLoop: of one greedy prompt all streams would say the same, with the same experts and no draw.
func TestStreamsOfTheNodeDrawAsTheLoop(t *testing.T) {
	if asked.Temperature != float64(streamSampling.Temperature) || asked.Temperature <= 0 {
		t.Errorf("streams ask for temperature %g, the loop draws at %g", asked.Temperature, streamSampling.Temperature)
	}
}

func TestTheGateOfTheNode(t *testing.T) {
	r := Report{Options: Defaults(), Served: []Served{{Streams: 64, Share: 0.96}, {Streams: 256, Share: 0.5}}}
	if r.judge(); len(r.Gates) != 1 || !r.Met() {
		t.Errorf("gates %+v, want one that is met", r.Gates)
	}
	r.Served[0].Share = 0.94
	if r.judge(); r.Met() {
		t.Error("94 % of the bare loop are enough")
	}
}

// TestAFileForANodeIsAModelThatAnswers opens it with the engine as the node does, and compares the tokens of text and
// back. The processor computes.
func TestAFileForANodeIsAModelThatAnswers(t *testing.T) {
	o := tiny()
	o.Vocabulary = vocabularyMin + 40
	path := filepath.Join(t.TempDir(), "m.gguf")
	tensors, err := o.writeHoles(path, types["bf16"], true)
	if err != nil {
		t.Fatal(err)
	}
	f, err := modelfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, tensor := range tensors {
		stored, _ := f.Tensor(tensor.Name)
		if (isEnd(tensor) || isVector(tensor)) == (len(bytes.Trim(stored.Bytes(), "\x00")) == 0) {
			t.Errorf("%s: of matrices only embeddings, head and routers have values", tensor.Name)
		}
	}
	words, err := tokenizer.FromFile(f)
	if err != nil {
		t.Fatal(err)
	}
	const text = "a b\tc~\u00e9"
	if ids := words.Encode(nil, text); len(ids) != len(text) {
		t.Errorf("%d tokens for %d bytes", len(ids), len(text))
	}
	if got := words.Text(vocabularyMin); got != " w"+strconv.FormatInt(vocabularyMin, 36) {
		t.Errorf("a token of answers is %q", got)
	}
	m, err := model.ReadConfig(f)
	if err != nil || m.Vocab != o.Vocabulary {
		t.Errorf("the model: %v, %d tokens", err, m.Vocab)
	}
	if yaml := string(o.nodeConfig(path)); !strings.Contains(yaml, "sequences_max: 256") {
		t.Errorf("the node's configuration has no room for the streams:\n%s", yaml)
	}
}

func TestWaysToLaunchAreTablesAndDiffer(t *testing.T) {
	for _, k := range knobs {
		ways := distinct(k.ways(tune.For("")))
		seen := map[string]bool{}
		for i, w := range ways {
			if err := w.shapes.Validate(); err != nil || seen[w.value] {
				t.Errorf("%s %s: %v, or it comes twice", k.what, w.value, err)
			}
			if i == 0 && !reflect.DeepEqual(w.shapes, tune.For("")) {
				t.Errorf("%s: the first way is %+v, want the table's own", k.what, w.shapes)
			}
			seen[w.value] = true
		}
		if len(ways) < 2 || len(k.cells) == 0 {
			t.Errorf("%s: %d ways and %d cells leave no choice", k.what, len(ways), len(k.cells))
		}
	}
	first := Tuned{Milliseconds: []float64{2, 4}}
	one := Tuned{Milliseconds: []float64{1, 4}}
	if one.relate(first); one.Ratio != 0.75 {
		t.Errorf("half the time in one cell of two is a ratio of %v, want 0.75", one.Ratio)
	}
	one = Tuned{Skipped: "x", Milliseconds: []float64{1}}
	if one.relate(first); one.Ratio != 0 {
		t.Errorf("a way that was not tried has a ratio of %v", one.Ratio)
	}
}

// TestStepsOfPromptsAreThoseOfTheModel: a step of more rows than the model takes is refused before anything is loaded.
func TestStepsOfPromptsAreThoseOfTheModel(t *testing.T) {
	for rows, fine := range map[int]bool{32: true, 8192: true, 8193: false, 1 << 15: false} {
		o := Defaults()
		o.Rows = rows
		if err := o.List().Validate(); (err == nil) != fine || !fine && !strings.Contains(err.Error(), "--rows ") {
			t.Errorf("%d rows: %v", rows, err)
		}
	}
}
