package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"corenode/node/cli"
)

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
