package check

import (
	"crypto/sha256"
	"fmt"
	"log/slog"

	"corenode/extensions"
	"corenode/extensions/guest"
	"corenode/extensions/vector"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// File checks a module file. What the module logs goes to log, nil is nowhere.
func File(wasm []byte, o Options, log *slog.Logger) *Report {
	m, err := extensions.OpenOffline(wasm, log)
	if err != nil {
		return refused(wasm, err)
	}
	defer m.Close()
	switch {
	case o.Quick && m.Manifest.Runtime == guest.RuntimeGo:
		o.only = []string{"vectors", "money"}
	case o.Quick:
		o.only = []string{"vectors", "determinism", "ticks", "hostile input", "money", "memory"}
	}
	return Run(subjectOf(m, wasm), o)
}

// refused is the report of a module that does not load.
func refused(wasm []byte, err error) *Report {
	r := &Report{Module: "a module that does not load", Size: len(wasm), Digest: digestOf(wasm)}
	r.begin("load", func(s *Stage) {
		for _, one := range flat(err) {
			s.refused(one)
		}
	})
	return r.finish()
}

func digestOf(wasm []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(wasm)) }

func subjectOf(m *guest.Module, wasm []byte) Subject {
	vectors, _ := m.Vectors() // OpenOffline has looked
	s := Subject{
		Module: m.Manifest.Probed(), Name: m.Manifest.Ref(), Digest: digestOf(wasm), Size: len(wasm), Vectors: vectors,
		CheckConfig: m.Manifest.CheckConfig, Budget: m.Manifest.Budget, Try: m.Try, Native: nativeOf(m.Manifest),
	}
	s.Open = func(config []byte) (Guest, error) {
		i, err := m.Instance(config)
		if err != nil {
			return nil, err
		}
		return instance{i}, nil
	}
	if note := m.Note(); note != "" {
		s.Notes = append(s.Notes, note)
	}
	if m.Manifest.Runtime == guest.RuntimeGo {
		s.Notes = append(s.Notes, "a Go guest takes megabytes and milliseconds for each instance; C, Rust or Zig take kilobytes")
	}
	return s
}

// instance is a Guest of package guest.
type instance struct{ *guest.Instance }

// Call returns a frame of its own.
func (i instance) Call(op abi.Op, in []byte) (frame []byte, ticks int64, err error) {
	return i.Instance.Call(op, in, nil)
}

// nativeOf is the shipped native build for the slot of a manifest.
func nativeOf(m guest.Manifest) vector.Call {
	for _, b := range builtin.Modules() {
		if b.Kind == m.Kind && b.Protocol == m.Protocol && b.Native != nil {
			return callOf(b.Native)
		}
	}
	return nil
}

// callOf runs a native handler, whose panic is its fault.
func callOf(h func(op abi.Op, in, dst []byte) []byte) vector.Call {
	return func(op abi.Op, in []byte) (frame []byte, err error) {
		defer func() {
			if r := recover(); r != nil {
				frame, err = nil, fmt.Errorf("panic: %v", r)
			}
		}()
		return h(op, in, nil), nil
	}
}
