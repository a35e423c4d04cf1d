package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"corenode/node/cli"
)

// TestCharacterCutBetweenWrites: a buffer that writes on cuts where it is full, and the character is whole behind it. What
// has no rest when another character begins or the program ends is none.
func TestCharacterCutBetweenWrites(t *testing.T) {
	const text = "naïve 日本 🙂\n"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := &utf8Writer{to: &out}
		for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			part := rest[:min(size, len(rest))]
			if n, err := w.Write(part); n != len(part) || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		if err := w.Close(); err != nil || out.String() != text {
			t.Errorf("in parts of %d it is %q, %v", size, out.String(), err)
		}
	}
	var out bytes.Buffer
	w := &utf8Writer{to: &out}
	for _, part := range []string{"a\xf0\x9f", "b", "\xe6\x97", "\n", "c\xe6"} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil || out.String() != "a\uFFFDb\uFFFD\nc\uFFFD" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestPrintsOnlyUTF8: names, arguments and causes of others may hold any bytes.
func TestPrintsOnlyUTF8(t *testing.T) {
	const bad = "caf\xe9 \xff\xfe"
	var out bytes.Buffer
	w := &utf8Writer{to: &out}
	if n, err := w.Write([]byte("name " + bad + " ü\n")); n != len("name "+bad+" ü\n") || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if got := out.String(); got != "name caf\uFFFD \uFFFD ü\n" {
		t.Errorf("%q", got)
	}
	out.Reset()
	slog.New(slog.NewTextHandler(w, nil)).Info(bad, "cause", bad)
	slog.New(slog.NewJSONHandler(w, nil)).Info(bad, "cause", bad)
	cmd := cli.Root(version, serve)
	cmd.SetOut(w)
	cmd.SetErr(w)
	cmd.SetArgs([]string{"account", "show", bad, "--data-dir", t.TempDir() + "/" + bad})
	if err := cmd.Execute(); err == nil {
		t.Error("an account was found in a folder that does not exist")
	} else if _, err := w.Write([]byte(err.Error())); err != nil {
		t.Error(err)
	}
	if !utf8.Valid(out.Bytes()) || !strings.Contains(out.String(), "caf") {
		t.Errorf("%q", out.String())
	}
}
