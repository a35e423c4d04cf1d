package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// CPUConfig is a node's configuration that serves one model file with its own
// kernels. Answers are always the likeliest tokens, and nothing is charged;
// nothing else differs from the defaults but the threads.
func CPUConfig(model, path string, threads int) []byte {
	return fmt.Appendf(nil, `listen: 127.0.0.1:0
admin:
  listen: 127.0.0.1:0
models:
  %s:
    engine: cpu
    path: %q
    threads: %d
    prices:
      input: "0"
      cached_input: "0"
      output: "0"
    sampling:
      temperature: 0
      presence_penalty: 0
`, model, path, threads)
}

// BaseURL finds the address in a node's greeting; it is a Spec's Ready.
func BaseURL(line string) (string, bool) {
	fields := strings.Fields(line)
	if len(fields) == 3 && fields[0] == "base" && fields[1] == "URL" {
		return fields[2], true
	}
	return "", false
}

// DefaultKey reads the key that a node has made in its data folder.
func DefaultKey(data string) (string, error) {
	secret, err := os.ReadFile(filepath.Join(data, "default.key"))
	if err != nil {
		return "", fmt.Errorf("read the node's key: %w", err)
	}
	return strings.TrimSpace(string(secret)), nil
}
