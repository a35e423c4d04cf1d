package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda/archive"
)

// TestPeopleCanLookAtThePTX packs a file for two packages and takes both archives apart, each to a folder of its own.
func TestPeopleCanLookAtThePTX(t *testing.T) {
	top, to := t.TempDir(), filepath.Join(t.TempDir(), "new")
	if err := unpack(top, to); err == nil || !strings.Contains(err.Error(), "top folder") {
		t.Errorf("a folder without archives: %v", err)
	}
	for _, name := range []string{"wide", "eager"} {
		kernels := filepath.Join(top, "engine/kernel/cuda", name, "kernels")
		file := filepath.Join(t.TempDir(), "rows.ptx")
		if err := os.MkdirAll(kernels, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("of "+name), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := pack([]string{file}, filepath.Join(kernels, archive.Name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unpack(top, to); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"wide", "eager"} {
		if text, err := os.ReadFile(filepath.Join(to, name, "rows.ptx")); err != nil || string(text) != "of "+name {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
