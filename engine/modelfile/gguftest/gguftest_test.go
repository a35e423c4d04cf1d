package gguftest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// parity finds the folder of small models that llama.cpp was measured on.
func parity(t *testing.T) string {
	t.Helper()
	candidates := []string{"../../model/testdata/parity", "../../../../shared/data/parity"}
	if shared := os.Getenv("CORENODE_SHARED"); shared != "" {
		candidates = append(candidates, filepath.Join(shared, "data/parity"))
	}
	for _, dir := range candidates {
		if _, err := os.Stat(filepath.Join(dir, "tiny-qwen3-q4_k_m.gguf")); err == nil {
			return dir
		}
	}
	t.Skip("no folder with the parity models: set CORENODE_SHARED")
	return ""
}

func openModel(t *testing.T, path string) *modelfile.File {
	t.Helper()
	f, err := modelfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// The reference files record the SHA-256 of models that another program wrote
// from the same weights: ours must be the same files, byte for byte.
func TestRequantizeMakesTheSameFiles(t *testing.T) {
	dir := parity(t)
	types := map[string]kernel.Type{"f16": kernel.F16, "f32": kernel.F32, "q8_0": kernel.Q8_0, "q4_0": kernel.Q4_0}
	checked := 0
	for _, shape := range []string{"tiny-qwen3", "tiny-llama", "tiny-qwen35", "tiny-qwen35moe"} {
		source := openModel(t, filepath.Join(dir, shape+"-f16.gguf"))
		for name, typ := range types {
			records, err := filepath.Glob(filepath.Join(dir, shape+"-"+name+".*.json"))
			if err != nil || len(records) == 0 {
				t.Fatalf("no record of %s-%s (err %v)", shape, name, err)
			}
			data, err := gguftest.Requantize(source, typ)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprintf("%x", sha256.Sum256(data)), recordedHash(t, records[0]); got != want {
				t.Errorf("%s as %s has SHA-256 %s, want %s", shape, name, got, want)
			}
			checked++
		}
	}
	t.Logf("%d files", checked)
}

func recordedHash(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var record struct{ SHA256 string }
	if err := json.Unmarshal(text, &record); err != nil || len(record.SHA256) != 64 {
		t.Fatalf("%s has no hash (err %v)", path, err)
	}
	return record.SHA256
}

// Every model can be had in every type that has an encoder.
func TestRequantizeKQuants(t *testing.T) {
	dir := parity(t)
	source := openModel(t, filepath.Join(dir, "tiny-qwen35moe-f16.gguf"))
	limits := map[kernel.Type]float64{kernel.Q4_K: 0.1, kernel.Q5_K: 0.05, kernel.Q6_K: 0.025, kernel.BF16: 0.004}
	for typ, limit := range limits {
		data, err := gguftest.Requantize(source, typ)
		if err != nil {
			t.Fatal(err)
		}
		f, err := modelfile.OpenBytes("requantized", data)
		if err != nil {
			t.Fatal(err)
		}
		used := 0
		for i, got := range f.Tensors() {
			x, err := got.Floats()
			if err != nil {
				t.Fatal(err)
			}
			want, err := source.Tensors()[i].Floats()
			if err != nil {
				t.Fatal(err)
			}
			if got.Type == typ {
				used++
			}
			if e := relativeError(x, want); e > limit {
				t.Errorf("%s as type %d: relative error %.4f, want at most %v", got.Name, got.Type, e, limit)
			}
		}
		if used == 0 {
			t.Errorf("no tensor has type %d", typ)
		}
	}
}

// Another program's Q4_K and Q6_K must read as the weights they were made of.
func TestForeignKQuantsReadBack(t *testing.T) {
	dir := parity(t)
	source := openModel(t, filepath.Join(dir, "tiny-qwen3-f16.gguf"))
	quantized := openModel(t, filepath.Join(dir, "tiny-qwen3-q4_k_m.gguf"))
	limit := map[kernel.Type]float64{kernel.F32: 1e-6, kernel.Q4_K: 0.09, kernel.Q6_K: 0.025, kernel.Q5_K: 0.05}
	seen := map[kernel.Type]int{}
	for _, q := range quantized.Tensors() {
		s, ok := source.Tensor(q.Name)
		if !ok {
			t.Fatalf("no tensor %s in the source", q.Name)
		}
		seen[q.Type]++
		want, err := s.Floats()
		if err != nil {
			t.Fatal(err)
		}
		got, err := q.Floats()
		if err != nil {
			t.Fatal(err)
		}
		if e := relativeError(got, want); e > limit[q.Type] {
			t.Errorf("%s (type %d): relative error %.4f, want at most %v", q.Name, q.Type, e, limit[q.Type])
		}
	}
	if seen[kernel.Q4_K] == 0 || seen[kernel.Q6_K] == 0 {
		t.Fatalf("the file has no K quants: %v", seen)
	}
}

func relativeError(got, want []float32) float64 {
	var diff, sum float64
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		diff += d * d
		sum += float64(w) * float64(w)
	}
	return math.Sqrt(diff / sum)
}

func gaussian(n int) []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func TestQuantizersRoundTrip(t *testing.T) {
	x := gaussian(256 * 20)
	x[5] = 12 // an outlier
	for i := range 256 {
		x[256+i] = 0 // a block of zeroes
		x[512+i] = 1 + x[512+i]*x[512+i]
	}
	limits := map[kernel.Type]float64{kernel.F32: 0, kernel.F16: 5e-4, kernel.BF16: 4e-3, kernel.Q8_0: 0.01,
		kernel.Q4_0: 0.12, kernel.Q4_K: 0.09, kernel.Q5_K: 0.045, kernel.Q6_K: 0.025, kernel.F8E4M3: 0.03}
	for typ, limit := range limits {
		data, err := modelfile.Quantize(typ, x)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(x))
		if err := modelfile.Dequantize(got, typ, data); err != nil {
			t.Fatal(err)
		}
		if e := relativeError(got, x); e > limit {
			t.Errorf("type %d: relative error %.5f, want at most %v", typ, e, limit)
		}
		if got[256+7] != 0 {
			t.Errorf("type %d: a zero became %v", typ, got[256+7])
		}
	}
}

// Every half survives a round trip; halfway cases round to even.
func TestHalf(t *testing.T) {
	for h := range 1 << 16 {
		var x [1]float32
		if err := modelfile.Dequantize(x[:], kernel.F16, []byte{byte(h), byte(h >> 8)}); err != nil {
			t.Fatal(err)
		}
		if got := modelfile.Half(x[0]); got != uint16(h) && x[0] == x[0] {
			t.Fatalf("%04x became %04x over %v", h, got, x[0])
		}
	}
	for x, want := range map[float32]uint16{1 + 0x1p-11: 0x3c00, 1 + 3*0x1p-11: 0x3c02, 65519: 0x7bff, 65520: 0x7c00, 0x1p-25: 0,
		0x1.8p-25: 1, -1e9: 0xfc00} {
		if got := modelfile.Half(x); got != want {
			t.Errorf("Half(%v) = %04x, want %04x", x, got, want)
		}
	}
}

func TestRequantizeKeepsSmallTensors(t *testing.T) {
	f32 := func(name string, shape ...int) *modelfile.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data, err := modelfile.Quantize(kernel.F32, gaussian(n))
		if err != nil {
			t.Fatal(err)
		}
		return &modelfile.Tensor{Name: name, Type: kernel.F32, Shape: shape, Data: data}
	}
	data := gguftest.Bytes([]gguftest.KV{{Key: "general.architecture", Value: "qwen35moe"}, {Key: "list", Value: []string{"a", "b"}}}, []*modelfile.Tensor{
		f32("token_embd.weight", 256, 4), f32("blk.0.attn_norm.weight", 256), f32("blk.0.ffn_gate_inp.weight", 256, 2),
		f32("blk.0.ssm_conv1d.weight", 256, 2), f32("blk.0.ffn_down_exps.weight", 64, 4, 2), f32("blk.0.ssm_dt.bias", 8),
	})
	source, err := modelfile.OpenBytes("source", data)
	if err != nil {
		t.Fatal(err)
	}
	out, err := gguftest.Requantize(source, kernel.Q6_K)
	if err != nil {
		t.Fatal(err)
	}
	got, err := modelfile.OpenBytes("q6_k", out)
	if err != nil {
		t.Fatal(err)
	}
	for i, tensor := range got.Tensors() {
		want := kernel.F32
		if i == 0 {
			want = kernel.Q6_K
		}
		if tensor.Type != want {
			t.Errorf("%s has type %d, want %d", tensor.Name, tensor.Type, want)
		}
	}
	if list, err := got.Strings("list"); err != nil || len(list) != 2 || list[1] != "b" {
		t.Errorf("metadata did not survive: %q, %v", list, err)
	}
}

func TestWriteRefusesUnknownValues(t *testing.T) {
	if err := modelfile.Write(&bytes.Buffer{}, []gguftest.KV{{Key: "k", Value: struct{}{}}}, nil, nil); err == nil {
		t.Error("a struct is accepted as metadata")
	}
}
