package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"corenode/engine/modelfile"
)

func TestJoin(t *testing.T) {
	folder := fstest.MapFS{}
	add := func(name, text string) { folder[name] = &fstest.MapFile{Data: []byte(text)} }
	add("whole.gguf", "abc")
	for i := range 10 {
		add(fmt.Sprintf("ten.gguf.%d-of-10", i+1), string(rune('a'+i)))
	}
	add("hole.gguf.1-of-3", "a")
	add("hole.gguf.3-of-3", "c")
	add("mixed.gguf.1-of-2", "a")
	add("mixed.gguf.2-of-3", "b")
	add("both.gguf", "x")
	add("both.gguf.1-of-1", "x")
	cases := []struct{ stem, want, err string }{
		{stem: "whole", want: "abc"},
		{stem: "ten", want: "abcdefghij"}, // in the order of numbers, not of names
		{stem: "hole", err: "part 1 of 2"},
		{stem: "mixed", err: "part 2 of 2"},
		{stem: "both", err: "there are both.gguf and 1 parts"},
	}
	for _, c := range cases {
		got, err := join(folder, c.stem)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: got error %v, want %q", c.stem, err, c.err)
			}
		} else if err != nil || string(got) != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.stem, got, err, c.want)
		}
	}
	if _, err := join(folder, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a stem without files: got %v, want fs.ErrNotExist", err)
	}
}

// TestModels opens what the binary has for each id.
func TestModels(t *testing.T) {
	for id := range stems {
		f, err := modelfile.OpenBytes(id, Model(id))
		if err != nil {
			t.Fatal(err)
		}
		if f.Architecture() != "qwen35moe" {
			t.Errorf("%s is of architecture %q, want qwen35moe", id, f.Architecture())
		}
	}
	if Model("gpt") != nil {
		t.Error("an unknown id has a model")
	}
	if a, b := Model("core-1.1"), Model("core-1.1"); &a[0] != &b[0] {
		t.Error("a second call joined the file again")
	}
}

// filesMax is what all embedded models may take, in git and in the binary, which has 90 MB at most.
const filesMax = 46_000_000

func TestModelsFitTheBinary(t *testing.T) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d files, %v", len(entries), err)
	}
	total := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > filesMax {
		t.Errorf("the models have %d bytes, at most %d", total, filesMax)
	}
}
