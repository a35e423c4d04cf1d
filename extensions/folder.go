package extensions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"corenode/extensions/guest"
)

// folder is Options.Dir: the files of the modules that operators loaded, and the
// state. Without a name it keeps nothing.
type folder struct {
	dir string
	log *slog.Logger
}

// The parts of a module in Dir.
const (
	extWasm      = ".wasm"
	extSignature = ".sig"
	extConfig    = ".config.json"
)

const (
	stateFile = "state.json"
	// stateCopy says the same, and is written after it: one of the two is whole.
	stateCopy = "state.copy.json"
	// extDamaged is put to the name of what cannot be read and is moved aside.
	extDamaged = ".damaged"
)

// path is where a part of a module lies: its file, signature or configuration.
func (f folder) path(digest, ext string) string {
	return filepath.Join(f.dir, strings.TrimPrefix(digest, digestPrefix)+ext)
}

// keep writes a module's files, the module itself last: what is there is complete. One that is there
// stays: a full disk then fails before the configuration changes, or changes nothing.
// mu is held, so that no verb comes between the files and the module in memory.
func (f folder) keep(m *module, wasm []byte) error {
	type part struct {
		ext     string
		content []byte
	}
	parts := []part{{extSignature, m.signature}, {extConfig, m.config}}
	if there, err := os.ReadFile(f.path(m.digest, extWasm)); err != nil || !bytes.Equal(there, wasm) {
		parts = append(parts, part{extWasm, wasm})
	}
	for _, p := range parts {
		path := f.path(m.digest, p.ext)
		if len(p.content) == 0 {
			if err := removeFile(path); err != nil {
				return err
			}
			continue
		}
		if err := writeFile(path, p.content); err != nil {
			return err
		}
	}
	return nil
}

func (f folder) readFiles(digest string) (wasm, signature, config []byte, err error) {
	if wasm, err = os.ReadFile(f.path(digest, extWasm)); err != nil {
		return nil, nil, nil, err
	}
	for ext, content := range map[string]*[]byte{extSignature: &signature, extConfig: &config} {
		if *content, err = os.ReadFile(f.path(digest, ext)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil, err
		}
	}
	return wasm, signature, config, nil
}

func (f folder) deleteFiles(digest string) error {
	if f.dir == "" {
		return nil
	}
	var errs []error
	for _, ext := range []string{extWasm, extSignature, extConfig} {
		errs = append(errs, removeFile(f.path(digest, ext)))
	}
	return errors.Join(errs...)
}

// signatureOf is the signature as it lies beside the file by now: an operator may
// have put one of a newer key there.
func (f folder) signatureOf(m *module) []byte {
	if f.dir == "" {
		return m.signature
	}
	signature, err := os.ReadFile(f.path(m.digest, extSignature))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Error("the signature of a module cannot be read", "module", m.digest, "err", err)
	}
	return signature
}

// keepSignature writes another signature beside a module's file.
func (f folder) keepSignature(digest string, signature []byte) error {
	if f.dir == "" {
		return nil
	}
	return writeFile(f.path(digest, extSignature), signature)
}

// keepShipped stores the file of a shipped policy, unless it is there as it should be: its charges must be
// replayable when another version ships.
func (f folder) keepShipped(digest string, file func() ([]byte, error)) error {
	if there, err := os.ReadFile(f.path(digest, extWasm)); err == nil && digestOf(there) == digest {
		return nil
	}
	wasm, err := file()
	if err != nil {
		return err
	}
	return writeFile(f.path(digest, extWasm), wasm)
}

// readManifest reads the manifest of a module file in Dir, which is as it was when it was taken.
func (f folder) readManifest(digest string) (guest.Manifest, error) {
	wasm, err := os.ReadFile(f.path(digest, extWasm))
	if err != nil {
		return guest.Manifest{}, err
	}
	if digestOf(wasm) != digest {
		return guest.Manifest{}, fmt.Errorf("the file of %s was changed", digest)
	}
	return guest.ReadManifest(wasm)
}

// readState reads the state's file and its copy; nil is one that is not there.
func (f folder) readState() (texts [2][]byte, err error) {
	for i, name := range []string{stateFile, stateCopy} {
		texts[i], err = os.ReadFile(filepath.Join(f.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return texts, err
		}
		if err == nil && texts[i] == nil {
			texts[i] = []byte{}
		}
	}
	return texts, nil
}

// save writes the state, and its copy when it is written.
func (f folder) save(s *state) error {
	if f.dir == "" {
		return nil
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if err := writeFile(filepath.Join(f.dir, stateFile), text); err != nil {
		return fmt.Errorf("the change is in force but will not survive a restart: %w", err)
	}
	// An old copy must not bring back what was changed since: better none.
	copied := filepath.Join(f.dir, stateCopy)
	if err := writeFile(copied, text); err != nil {
		f.log.Error("the copy of state.json is not written", "err", errors.Join(err, removeFile(copied)))
	}
	return nil
}

// saveOrSay is save for changes that nobody asked for just now.
func (f folder) saveOrSay(s *state) {
	if err := f.save(s); err != nil {
		f.log.Error("the state of the modules is not saved", "err", err)
	}
}

// removeHalves removes what a kill left of files that were being written, here or by a restore: nobody else writes in Dir before it is
// opened. One that cannot be removed is in nobody's way.
func (f folder) removeHalves() {
	if f.dir == "" {
		return
	}
	left, _ := os.ReadDir(f.dir)
	for _, e := range left {
		if isHalf(e.Name()) {
			os.Remove(filepath.Join(f.dir, e.Name()))
		}
	}
}

// isHalf says whether a file is a part of one of ours: writeFile makes .NAME-NUMBER of NAME, a restore NAME.part.
func isHalf(name string) bool {
	whole, half := strings.CutSuffix(name, ".part")
	if !half {
		at := strings.LastIndexByte(name, '-')
		if half = at > 0 && name[0] == '.' && strings.Trim(name[at+1:], "0123456789") == ""; half {
			whole = name[1:at]
		}
	}
	for _, ext := range []string{extWasm, extSignature, extConfig} {
		if hex, ok := strings.CutSuffix(whole, ext); ok && isDigest(digestPrefix+hex) {
			return half
		}
	}
	return half && (whole == stateFile || whole == stateCopy)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeFile replaces a file as a whole: after a crash it is the old or the new
// one, never a part.
func writeFile(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// privateDir makes a folder that only its owner may read: compiled code in it
// is run, and modules in it are money.
func privateDir(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() == 0o700 { // then a disk that can only be read will do
		return err
	}
	return os.Chmod(dir, 0o700)
}
