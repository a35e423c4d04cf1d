package modelfile_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// allMeta has every kind of value once.
func allMeta() []gguftest.KV {
	return []gguftest.KV{
		{Key: "general.architecture", Value: "tiny"},
		{Key: "u8", Value: uint8(200)}, {Key: "i8", Value: int8(-3)}, {Key: "u16", Value: uint16(60000)}, {Key: "i16", Value: int16(-300)},
		{Key: "u32", Value: uint32(4000000000)}, {Key: "i32", Value: int32(-7)}, {Key: "f32", Value: float32(0.5)}, {Key: "bool", Value: true},
		{Key: "u64", Value: uint64(math.MaxUint64)}, {Key: "i64", Value: int64(math.MinInt64)}, {Key: "f64", Value: 1e300},
		{Key: "strings", Value: []string{"", "é", strings.Repeat("x", 100)}},
		{Key: "i32s", Value: []int32{1, -2, 3}}, {Key: "bools", Value: []bool{true, false}}, {Key: "u64s", Value: []uint64{1, math.MaxUint64}},
		{Key: "f32s", Value: []float32{1, 2}}, {Key: "bytes", Value: []uint8{9, 8}}, {Key: "none", Value: []int32{}},
		{Key: "few", Value: []uint64{1, 2}}, {Key: "many", Value: []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}},
	}
}

func matrix(name string, typ kernel.Type, shape ...int) *modelfile.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	data, err := modelfile.Quantize(typ, x)
	if err != nil {
		panic(err)
	}
	return &modelfile.Tensor{Name: name, Type: typ, Shape: shape, Data: data}
}

func sampleFile() []byte {
	return gguftest.Bytes(allMeta(), []*modelfile.Tensor{
		matrix("a", kernel.F32, 3), matrix("b.weight", kernel.Q8_0, 64, 2), matrix("c", kernel.F16, 5, 2, 2, 1),
	})
}

func open(t *testing.T, data []byte) *modelfile.File {
	t.Helper()
	f, err := modelfile.OpenBytes("sample", data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestReadBack(t *testing.T) {
	f := open(t, sampleFile())
	if f.Name() != "sample" || f.Architecture() != "tiny" {
		t.Errorf("name %q architecture %q", f.Name(), f.Architecture())
	}
	if got, want := len(f.Keys()), len(allMeta()); got != want {
		t.Fatalf("%d keys, want %d", got, want)
	}
	for i, kv := range allMeta() {
		if f.Keys()[i].Key != kv.Key {
			t.Errorf("key %d is %q, want %q", i, f.Keys()[i].Key, kv.Key)
		}
	}
	var names []string
	for _, tensor := range f.Tensors() {
		names = append(names, tensor.Name)
		if tensor.Offset%32 != 0 {
			t.Errorf("tensor %s starts at %d", tensor.Name, tensor.Offset)
		}
	}
	if !slices.Equal(names, []string{"a", "b.weight", "c"}) {
		t.Fatalf("tensors %q", names)
	}
	c, ok := f.Tensor("c")
	if !ok || c.Elements() != 20 || !slices.Equal(c.Shape, []int{5, 2, 2, 1}) || c.Type != kernel.F16 {
		t.Fatalf("tensor c is %+v", c)
	}
	x, err := c.Floats()
	if err != nil || math.Abs(float64(x[7])-math.Sin(7)) > 1e-3 {
		t.Errorf("c[7] = %v, want %v (err %v)", x[7], math.Sin(7), err)
	}
}

func TestAccessors(t *testing.T) {
	f := open(t, sampleFile())
	uints := map[string]uint64{"u8": 200, "u16": 60000, "u32": 4000000000, "u64": math.MaxUint64}
	for key, want := range uints {
		if got, err := f.Uint(key); err != nil || got != want {
			t.Errorf("Uint(%s) = %d, %v, want %d", key, got, err, want)
		}
	}
	floats := map[string]float64{"f32": 0.5, "f64": 1e300, "i8": -3, "u64": math.MaxUint64}
	for key, want := range floats {
		if got, err := f.Float(key); err != nil || got != want {
			t.Errorf("Float(%s) = %v, %v, want %v", key, got, err, want)
		}
	}
	ints := map[string][]int64{"i32s": {1, -2, 3}, "bools": {1, 0}, "i16": {-300}, "bytes": {9, 8}, "none": {}, "few": {1, 2}, "bool": {1}, "i64": {math.MinInt64}}
	for key, want := range ints {
		if got, err := f.Ints(key); err != nil || !slices.Equal(got, want) {
			t.Errorf("Ints(%s) = %v, %v, want %v", key, got, err, want)
		}
	}
	if got, err := f.Bool("bool"); err != nil || !got {
		t.Errorf("Bool = %v, %v", got, err)
	}
	if got, err := f.Strings("strings"); err != nil || len(got) != 3 || got[0] != "" || got[1] != "é" || len(got[2]) != 100 {
		t.Errorf("Strings = %q, %v", got, err)
	}
}

func TestAccessorErrorsNameKeyAndType(t *testing.T) {
	f := open(t, sampleFile())
	cases := []struct {
		name string
		call func() error
		want []string
	}{
		{"absent", func() error { _, err := f.Uint("nope"); return err }, []string{"nope", "absent"}},
		{"negative", func() error { _, err := f.Uint("i32"); return err }, []string{"i32", "-7"}},
		{"uint of bool", func() error { _, err := f.Uint("bool"); return err }, []string{"bool", "integer"}},
		{"uint of string", func() error { _, err := f.Uint("general.architecture"); return err }, []string{"general.architecture", "string"}},
		{"float of bool", func() error { _, err := f.Float("bool"); return err }, []string{"bool", "number"}},
		{"bool of u8", func() error { _, err := f.Bool("u8"); return err }, []string{"u8", "bool"}},
		{"string of array", func() error { _, err := f.String("strings"); return err }, []string{"strings", "[]string"}},
		{"strings of i32s", func() error { _, err := f.Strings("i32s"); return err }, []string{"i32s", "[]i32"}},
		{"ints of f32s", func() error { _, err := f.Ints("f32s"); return err }, []string{"f32s", "[]f32"}},
		{"ints of big u64", func() error { _, err := f.Ints("u64s"); return err }, []string{"u64s"}},
	}
	for _, c := range cases {
		err := c.call()
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %q does not mention %q", c.name, err, w)
			}
		}
	}
}

func TestValueText(t *testing.T) {
	f := open(t, sampleFile())
	want := map[string]string{
		"u8": "200", "f32": "0.5", "bool": "true", "i32s": "[1, -2, 3]", "none": "[]", "many": "[1, 2, 3, 4, 5, 6, 7, 8, ... 9 in all]", "bools": "[true, false]",
		"strings": `["", "é", "` + strings.Repeat("x", 60) + `"...]`, "general.architecture": `"tiny"`, "u64": "18446744073709551615",
	}
	for _, v := range f.Keys() {
		if w, ok := want[v.Key]; ok && v.Text() != w {
			t.Errorf("%s shows as %s, want %s", v.Key, v.Text(), w)
		}
		if v.Key == "strings" && v.TypeName() != "[]string" {
			t.Errorf("type name %s", v.TypeName())
		}
	}
}

// patch returns a copy of data with b written at offset at.
func patch(data []byte, at int, b ...byte) []byte {
	out := bytes.Clone(data)
	copy(out[at:], b)
	return out
}

func le64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// raw builds a header by hand: what gguftest would not write.
func raw(tensors, keys uint64, rest ...[]byte) []byte {
	out := append([]byte("GGUF\x03\x00\x00\x00"), le64(tensors)...)
	out = append(out, le64(keys)...)
	for _, b := range rest {
		out = append(out, b...)
	}
	return append(out, make([]byte, 256)...)
}

func str(s string) []byte { return append(le64(uint64(len(s))), s...) }
func u32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

func info(name string, typ uint32, offset uint64, shape ...uint64) []byte {
	out := append(str(name), u32(uint32(len(shape)))...)
	for _, n := range shape {
		out = append(out, le64(n)...)
	}
	return append(append(out, u32(typ)...), le64(offset)...)
}

func TestBrokenFilesAreErrors(t *testing.T) {
	good := sampleFile()
	nested := append(str("deep"), u32(9)...)
	for range 6 {
		nested = append(append(nested, u32(9)...), le64(1)...)
	}
	key := func(typ uint32, value ...byte) []byte { return append(append(str("k"), u32(typ)...), value...) }
	cases := []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "magic"},
		{"magic", patch(good, 0, 'X'), "XGUF"},
		{"version 1", patch(good, 4, 1), "version 1"},
		{"big endian", patch(good, 4, 0, 0, 0, 3), "big-endian"},
		{"tensors 2^60", patch(good, 8, le64(1<<60)...), "number of tensors"},
		{"keys 2^63", patch(good, 16, le64(1<<63)...), "number of metadata keys"},
		{"key length 2^63", patch(good, 24, le64(1<<63)...), "metadata key 0"},
		{"key length max", patch(good, 24, le64(math.MaxUint64)...), "metadata key 0"},
		{"empty key", patch(good, 24, le64(0)...), "empty"},
		{"key of 64 KiB", raw(0, 1, str(strings.Repeat("k", 1<<16)), u32(0), []byte{1}), "has 65536 bytes"},
		{"no padding before the data", raw(1, 0, info("t", 0, 0, 4))[:60], "tensor t"},
		{"duplicate key", raw(0, 2, key(0, 1), key(0, 1)), `"k" appears twice`},
		{"key for terminals", gguftest.Bytes([]gguftest.KV{{Key: "a\x1b[2J", Value: "x"}}, nil), `"a\x1b[2J", want printable`},
		{"tensor for terminals", raw(1, 0, info("a\u202e\u009bb", 0, 0, 4)), `"a\u202e\u009bb", want printable`},
		{"tensor that is no text", raw(1, 0, info("a\xff", 0, 0, 4)), "want printable"},
		{"value type", raw(0, 1, key(13)), "unknown type 13"},
		{"bool 2", raw(0, 1, key(7, 2)), "byte 2"},
		{"string value", raw(0, 1, key(8, le64(1<<62)...)), `"k"`},
		{"array count", raw(0, 1, key(9, append(u32(4), le64(1<<62)...)...)), `"k"`},
		{"array of strings count", raw(0, 1, key(9, append(u32(8), le64(1<<40)...)...)), `"k"`},
		{"array type", raw(0, 1, key(9, append(u32(99), le64(1)...)...)), "unknown type 99"},
		{"nested arrays", raw(0, 1, nested), "deep"},
		{"alignment 0", gguftest.Bytes([]gguftest.KV{{Key: "general.alignment", Value: uint32(0)}}, nil), "alignment"},
		{"alignment 33", gguftest.Bytes([]gguftest.KV{{Key: "general.alignment", Value: uint32(33)}}, nil), "alignment"},
		{"alignment 2^31", gguftest.Bytes([]gguftest.KV{{Key: "general.alignment", Value: uint32(1 << 31)}}, nil), "alignment"},
		{"alignment type", gguftest.Bytes([]gguftest.KV{{Key: "general.alignment", Value: "32"}}, nil), "alignment"},
		{"split", gguftest.Bytes([]gguftest.KV{{Key: "split.count", Value: uint16(3)}}, nil), "3 parts"},
		{"no dimensions", raw(1, 0, info("t", 0, 0)), "t has 0 dimensions"},
		{"five dimensions", raw(1, 0, info("t", 0, 0, 1, 1, 1, 1, 1)), "5 dimensions"},
		{"dimension 0", raw(1, 0, info("t", 0, 0, 0)), "dimension 0"},
		{"product overflow", raw(1, 0, info("t", 0, 0, 1<<33, 1<<33)), "tensor t"},
		{"product wraps to small", raw(1, 0, info("t", 0, 0, 1<<32, 1<<32, 4)), "tensor t"},
		{"dimension 2^63", raw(1, 0, info("t", 0, 0, 1<<63)), "tensor t"},
		{"type", raw(1, 0, info("t", 77, 0, 4)), "unknown type 77"},
		{"removed type", raw(1, 0, info("t", 4, 0, 4)), "unknown type 4"},
		{"row not whole blocks", raw(1, 0, info("t", 8, 0, 33)), "block of 32"},
		{"row not whole superblocks", raw(1, 0, info("t", 12, 0, 32)), "block of 256"},
		{"offset max", raw(1, 0, info("t", 0, math.MaxUint64, 4)), "offset"},
		{"offset that wraps", raw(1, 0, info("t", 0, math.MaxUint64-31, 4)), "offset 18446744073709551584 in a file"},
		{"product of dimensions", raw(1, 0, info("t", 0, 0, 2000, 2000)), "dimension 1 of 2000"},
		{"offset beyond", raw(1, 0, info("t", 0, 256, 4)), "tensor t"},
		{"offset unaligned", raw(1, 0, info("t", 0, 4, 4)), "alignment"},
		{"data beyond the end", raw(1, 0, info("t", 0, 0, 70)), "tensor t"},
		{"duplicate tensor", raw(2, 0, info("t", 0, 0, 4), info("t", 0, 32, 4)), `"t" appears twice`},
		{"overlap", raw(2, 0, info("t", 0, 0, 9), info("u", 0, 32, 4)), "overlaps"},
		{"same place", raw(2, 0, info("t", 0, 0, 1), info("u", 0, 0, 1)), "overlaps"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := modelfile.OpenBytes("x", c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// Every proper prefix of a file must be refused with an offset inside it.
func TestTruncation(t *testing.T) {
	good := sampleFile()
	end := 0
	for _, tensor := range open(t, good).Tensors() {
		end = int(tensor.Offset) + len(tensor.Data)
	}
	for n := range end {
		_, err := modelfile.OpenBytes("x", good[:n])
		fault, ok := errors.AsType[*modelfile.FormatError](err)
		if !ok || fault.Offset < 0 || fault.Offset > int64(end) {
			t.Fatalf("cut at %d of %d: %v", n, end, err)
		}
	}
}

// More than any model has is refused before it costs memory.
func TestCountsAreCapped(t *testing.T) {
	many := append(raw(1<<19, 0), make([]byte, 40<<19)...)
	if _, err := modelfile.OpenBytes("x", many); err == nil || !strings.Contains(err.Error(), "524288 tensors") {
		t.Errorf("half a million tensors: %v", err)
	}
	big := gguftest.Bytes([]gguftest.KV{{Key: "k", Value: make([]uint8, 1<<24+1)}}, nil)
	if _, err := open(t, big).Ints("k"); err == nil || !strings.Contains(err.Error(), `"k"`) {
		t.Errorf("an array of %d elements: %v", 1<<24+1, err)
	}
}

func TestVersion2(t *testing.T) {
	if _, err := modelfile.OpenBytes("v2", patch(sampleFile(), 4, 2)); err != nil {
		t.Fatal(err)
	}
}

func TestUnreadableTypeIsListed(t *testing.T) {
	f := open(t, raw(1, 0, info("t", 23, 0, 256)))
	tensor, _ := f.Tensor("t")
	if len(tensor.Data) != 136 {
		t.Errorf("an IQ4_XS block has %d bytes, want 136", len(tensor.Data))
	}
	if _, err := tensor.Floats(); err == nil || !strings.Contains(err.Error(), "IQ4_XS") {
		t.Errorf("error %v does not name the type", err)
	}
}

func TestOpenPath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	if err := os.WriteFile(path, sampleFile(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := modelfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Digest() != open(t, sampleFile()).Digest() {
		t.Error("the digest depends on how the file was opened")
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	empty := filepath.Join(dir, "empty.gguf")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{dir, empty, filepath.Join(dir, "absent.gguf"), os.DevNull} {
		if _, err := modelfile.Open(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("Open(%s): error %v does not name it", bad, err)
		}
	}
}

// TestBrokenSplits: the parts of a split model are all there, each once and in its place.
func TestBrokenSplits(t *testing.T) {
	part := func(no, count int, names ...string) []byte {
		var tensors []*modelfile.Tensor
		for _, name := range names {
			tensors = append(tensors, matrix(name, kernel.F32, 3))
		}
		return gguftest.Bytes([]gguftest.KV{{Key: "split.no", Value: uint16(no)}, {Key: "split.count", Value: uint16(count)}}, tensors)
	}
	const first, second = "m-00001-of-00002.gguf", "m-00002-of-00002.gguf"
	for _, c := range []struct {
		open  string
		files map[string][]byte
		want  string // "" for none
	}{
		{first, map[string][]byte{first: part(0, 2, "a"), second: part(1, 2, "b")}, ""},
		{"m.gguf", map[string][]byte{"m.gguf": part(0, 2, "a")}, "names must end in -00001-of-00002.gguf"},
		{first, map[string][]byte{first: part(0, 3, "a")}, "names must end in -00001-of-00003.gguf"},
		{"m-00001-of-60000.gguf", map[string][]byte{"m-00001-of-60000.gguf": part(0, 60000, "a")}, "names must end in"},
		{second, map[string][]byte{first: part(0, 2, "a"), second: part(1, 2, "b")}, "not the first part"},
		{second, map[string][]byte{second: part(0, 2, "a")}, "not the first part"},
		{first, map[string][]byte{first: part(1, 2, "a")}, "not the first part"},
		{first, map[string][]byte{first: part(0, 2, "a")}, "no such file"},
		{first, map[string][]byte{first: part(0, 2, "a"), second: part(0, 2, "b")}, "number 0 of 2"},
		{first, map[string][]byte{first: part(0, 2, "a"), second: part(1, 3, "b")}, "number 1 of 3"},
		{first, map[string][]byte{first: part(0, 2, "a"), second: sampleFile()}, "number 0 of 1"},
		{first, map[string][]byte{first: part(0, 2, "a"), second: part(1, 2, "a")}, `"a" appears twice`},
		{first, map[string][]byte{first: part(0, 2, "a"), second: part(1, 2, "b")[:99]}, "broken at byte"},
	} {
		dir := t.TempDir()
		for name, data := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f, err := modelfile.Open(filepath.Join(dir, c.open))
		if err == nil {
			f.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to say %q", c.open, err, c.want)
		}
	}
}

func TestDigest(t *testing.T) {
	big := matrix("big.weight", kernel.F32, 1000, 50)
	data := gguftest.Bytes(allMeta(), []*modelfile.Tensor{big, matrix("small", kernel.F32, 300)})
	base := open(t, data).Digest()
	if len(base) != 64 || open(t, bytes.Clone(data)).Digest() != base {
		t.Fatalf("digest %q is not a function of the content", base)
	}
	f := open(t, data)
	for _, tensor := range f.Tensors() {
		for _, at := range []int64{tensor.Offset, tensor.Offset + int64(len(tensor.Data)) - 1} {
			if open(t, patch(data, int(at), data[at]^1)).Digest() == base {
				t.Errorf("a change at byte %d of %s is not seen", at-tensor.Offset, tensor.Name)
			}
		}
	}
	if open(t, append(bytes.Clone(data), 0)).Digest() == base {
		t.Error("a longer file has the same digest")
	}
	meta := allMeta()
	meta[1].Value = uint8(201)
	if open(t, gguftest.Bytes(meta, []*modelfile.Tensor{big, matrix("small", kernel.F32, 300)})).Digest() == base {
		t.Error("changed metadata has the same digest")
	}
}

// testdata/dequantize.json was recorded with an independent implementation;
// the file says which kind. Values must be bit-equal.
func TestDequantizeAgainstRecorded(t *testing.T) {
	text, err := os.ReadFile("testdata/dequantize.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Cases []struct {
			Type, Blocks, Float32 string
			Number                uint32
		}
	}
	if err := json.Unmarshal(text, &recorded); err != nil || len(recorded.Cases) != 12 {
		t.Fatalf("%d cases, want 12 (err %v)", len(recorded.Cases), err)
	}
	for _, c := range recorded.Cases {
		blocks, _ := hex.DecodeString(c.Blocks)
		want, _ := hex.DecodeString(c.Float32)
		got := make([]float32, len(want)/4)
		if err := modelfile.Dequantize(got, kernel.Type(c.Number), blocks); err != nil {
			t.Errorf("%s: %v", c.Type, err)
		}
		for i, g := range got {
			if w := binary.LittleEndian.Uint32(want[4*i:]); math.Float32bits(g) != w && (g != 0 || w<<1 != 0) {
				t.Fatalf("%s value %d is %v, want %v", c.Type, i, g, math.Float32frombits(w))
			}
		}
	}
}

func TestDequantizeRefusesWrongSizes(t *testing.T) {
	for _, c := range []struct{ values, bytes int }{{32, 33}, {31, 34}, {64, 34}, {0, 34}} {
		if err := modelfile.Dequantize(make([]float32, c.values), kernel.Q8_0, make([]byte, c.bytes)); err == nil {
			t.Errorf("%d values from %d bytes is accepted", c.values, c.bytes)
		}
	}
}

func TestHalfIsExact(t *testing.T) {
	cases := map[uint16]float64{0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 1: 0x1p-24, 0x03ff: 1023 * 0x1p-24, 0x0400: 0x1p-14,
		0x7c00: math.Inf(1), 0xfc00: math.Inf(-1)}
	for h, want := range cases {
		var got [1]float32
		if err := modelfile.Dequantize(got[:], kernel.F16, []byte{byte(h), byte(h >> 8)}); err != nil || float64(got[0]) != want {
			t.Errorf("half %04x is %v, want %v (err %v)", h, got[0], want, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(sampleFile())
	f.Add(raw(2, 1, append(str("k"), u32(0)...), []byte{1}, info("t", 12, 0, 256), info("u", 14, 160, 256)))
	f.Add(raw(1, 0, info("t", 0, 0, 1<<33, 1<<33)))
	f.Add(sampleFile()[:100])
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := modelfile.OpenBytes("fuzz", data)
		if err != nil {
			return
		}
		for _, v := range file.Keys() {
			_ = v.Text()
			_, _ = file.Ints(v.Key)
			_, _ = file.Strings(v.Key)
			_, _ = file.Float(v.Key)
		}
		for _, tensor := range file.Tensors() {
			if end := tensor.Offset + int64(len(tensor.Data)); tensor.Offset < 0 || end > int64(len(data)) {
				t.Fatalf("tensor %s lies at %d to %d of %d bytes", tensor.Name, tensor.Offset, end, len(data))
			}
			if x, err := tensor.Floats(); err == nil && len(x) != tensor.Elements() {
				t.Fatalf("tensor %s has %d values, want %d", tensor.Name, len(x), tensor.Elements())
			}
		}
		_ = file.Digest()
	})
}
