package extensions

import (
	"corenode/extensions/guest"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// shippedModule is one module that is part of the program.
type shippedModule struct {
	slot     Slot
	name     string
	history  bool
	off      bool // it serves when an operator enables it, in a slot without a native build
	native   handler
	digest   string                 // of the Wasm file; "" = there is none
	nativeAs string                 // what stands for a digest where the native build answered
	wasm     func() ([]byte, error) // the file, which is decompressed for it
	manifest []byte                 // the one in the file
}

// nativePrefix begins what stands for the digest of a native build.
const nativePrefix = "builtin:"

// shippedModules are those of package builtin.
func shippedModules() (all []shippedModule) {
	for _, m := range builtin.Modules() {
		s := shippedModule{slot: Slot(m.Kind), name: m.Name, history: m.History, off: m.Off, native: m.Native,
			digest: m.Digest, nativeAs: nativePrefix + m.Name, wasm: m.Wasm, manifest: m.Manifest}
		if m.Kind == guest.KindTranslator {
			s.slot = Slot(m.Protocol)
		}
		if m.Name == builtin.TariffName {
			s.nativeAs = builtin.TariffDigest
		}
		all = append(all, s)
	}
	return all
}

// declineAll stands in a slot for which nothing ships.
func declineAll(_ abi.Op, _, dst []byte) []byte {
	return abi.BeginOutput(dst, abi.StatusDecline, 0)
}
