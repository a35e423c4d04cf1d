package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheBuildSaysWhichTestsSkip: what is not installed is named in one line with what is not tested for it; it is no error.
func TestTheBuildSaysWhichTestsSkip(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash on this machine")
	}
	path := t.TempDir() // the only folder of programs, so nothing can be installed either
	said := func() string {
		needs := exec.Command(bash, "../.ci/needs")
		needs.Env = []string{"PATH=" + path}
		out, err := needs.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	python := "python3 with jinja2 (templates against jinja2, "
	bare := said()
	if strings.Count(bare, "\n") != 1 || !strings.Contains(bare, "chromium (the console in a browser)") || !strings.Contains(bare, python) {
		t.Errorf("without any program: %s", bare)
	}
	if err := os.WriteFile(filepath.Join(path, "chromium"), []byte("#!"+bash+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	// A Python without jinja2 is not what is needed.
	if err := os.WriteFile(filepath.Join(path, "python3"), []byte("#!"+bash+"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out := said(); strings.Contains(out, "chromium") || !strings.Contains(out, python) {
		t.Errorf("with a browser and a bare Python: %s", out)
	}
}
