// Command build makes the module files that ship inside the node: each folder
// beside builtin that has a guest is compiled for wasip1, gets its manifest
// and golden vectors as custom sections, and is written compressed, with the
// digests of all and the toolchain's version in the file BUILT.
//
// The same toolchain gives the same bytes wherever the checkout lies.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/klauspost/compress/zstd"
)

func main() {
	source := flag.String("source", "wasm", "folder of the modules' sources")
	out := flag.String("out", "wasm/builtin/modules", "folder to write to")
	flag.Parse()
	if err := build(*source, *out); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

// build makes every module of source and writes them all to out.
func build(source, out string) error {
	guests, err := filepath.Glob(filepath.Join(source, "*", "guest", "main.go"))
	if err != nil || len(guests) == 0 {
		return fmt.Errorf("%s has no guests: run it from the repository's top folder", source)
	}
	built := fmt.Appendf(nil, "toolchain %s\n", runtime.Version())
	for _, main := range guests {
		folder := filepath.Dir(filepath.Dir(main))
		name := filepath.Base(folder)
		module, manifest, err := makeModule(folder)
		if err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
		built = fmt.Appendf(built, "%s sha256:%x\n", name, sha256.Sum256(module))
		if err := os.WriteFile(filepath.Join(out, name+".wasm.zst"), compress(module), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name+".json"), manifest, 0o644); err != nil {
			return err
		}
		fmt.Printf("%-10s %8d bytes, %7d compressed\n", name, len(module), len(compress(module)))
	}
	return os.WriteFile(filepath.Join(out, "BUILT"), built, 0o644)
}

// makeModule compiles the guest of folder and gives it its custom sections, one of which is the manifest.
func makeModule(folder string) (module, manifest []byte, err error) {
	if module, err = compile(filepath.Join(folder, "guest")); err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(filepath.Join(folder, "guest", "manifest.json"))
	if err != nil {
		return nil, nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, nil, fmt.Errorf("manifest.json: %w", err)
	}
	vectors, err := pack(filepath.Join(folder, "vectors"))
	if err != nil {
		return nil, nil, err
	}
	manifest = compact.Bytes()
	module = appendSection(module, "corenode.manifest", manifest)
	return appendSection(module, "corenode.vectors", vectors), manifest, nil
}

// compile runs the toolchain that runs this program, with every setting that
// reaches the bytes fixed.
func compile(guest string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "module-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "module.wasm")
	tool := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-buildmode=c-shared", "-o", file, ".")
	tool.Dir = guest
	tool.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOWASM=", "GOEXPERIMENT=", "GODEBUG=", "GOFLAGS=",
		"CGO_ENABLED=0", "GOTOOLCHAIN=local")
	if output, err := tool.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, output)
	}
	return os.ReadFile(file)
}

// pack joins the arrays of a folder's *.json files, in the order of their names.
func pack(folder string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, errors.New("it has no golden vectors")
	}
	var all []json.RawMessage
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var some []json.RawMessage
		if err := json.Unmarshal(text, &some); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, some...)
	}
	var out bytes.Buffer
	out.WriteByte('[')
	for i, vector := range all {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := json.Compact(&out, vector); err != nil {
			return nil, err
		}
	}
	out.WriteByte(']')
	return out.Bytes(), nil
}

// appendSection appends a custom section: id 0, size, length of the name, name, content.
func appendSection(module []byte, name string, content []byte) []byte {
	body := binary.AppendUvarint(nil, uint64(len(name)))
	body = append(append(body, name...), content...)
	module = binary.AppendUvarint(append(module, 0), uint64(len(body)))
	return append(module, body...)
}

func compress(module []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20))
	if err != nil {
		panic(err) // the options are constants
	}
	return w.EncodeAll(module, nil)
}
