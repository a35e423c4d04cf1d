// Command pack makes the archive of a package's kernels of the PTX files that it is given, or takes all archives apart.
//
//	go run ./engine/kernel/cuda/pack -x DIR
//
// writes DIR/eager/attention.ptx and so on, for people. The build.sh of each package calls it with PTX files.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"corenode/engine/kernel/cuda/archive"
)

func main() {
	out := flag.String("o", archive.Name, "archive to write")
	extract := flag.String("x", "", "folder to write the PTX of all packages to; run it from the repository's top folder")
	flag.Parse()
	err := errors.New("which PTX files? pack -o ARCHIVE FILE..., or pack -x DIR for those of all packages")
	if *extract != "" {
		err = unpack(".", *extract)
	} else if flag.NArg() > 0 {
		err = pack(flag.Args(), *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// pack writes an archive of files.
func pack(files []string, out string) error {
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		texts[filepath.Base(file)] = string(text)
	}
	packed, err := archive.Pack(texts)
	if err != nil {
		return err
	}
	return os.WriteFile(out, packed, 0o644)
}

// unpack writes what the archives of the tree hold, each to a folder of its package's name.
func unpack(top, to string) error {
	archives, err := filepath.Glob(filepath.Join(top, "engine", "kernel", "cuda", "*", "kernels", archive.Name))
	if err != nil || len(archives) == 0 {
		return errors.New("there are no archives here: run it from the repository's top folder")
	}
	for _, file := range archives {
		packed, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		texts, err := archive.Unpack(packed)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		folder := filepath.Join(to, filepath.Base(filepath.Dir(filepath.Dir(file))))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for name, text := range texts {
			if err := os.WriteFile(filepath.Join(folder, filepath.Base(name)), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
