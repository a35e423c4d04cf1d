package builtin

import (
	"embed"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"

	"corenode/wasm/chat"
	"corenode/wasm/completions"
	generatecontent "corenode/wasm/generate-content"
	"corenode/wasm/ollama"
	"corenode/wasm/responses"
	"corenode/wasm/sdk"
	"corenode/wasm/tariff"
)

// files holds what `make wasm` built: <name>.wasm.zst for every module and its manifest as <name>.json, and
// BUILT with the toolchain's version and the modules' digests.
//
//go:embed modules
var files embed.FS

// Module is one shipped module, as native code and as a Wasm file.
type Module struct {
	Name     string
	Kind     string // "translator" or "billing"
	Protocol string // of a translator: "chat", "responses", or one with routes
	Off      bool   // it serves only when an operator enables it; such a translator has routes
	History  bool   // a translator that wants the answer so far; the same as in its manifest
	// Native is the same logic compiled into this program. It is safe for
	// concurrent use.
	Native sdk.Handler
	// Digest of the module file: "sha256:" and 64 hex digits.
	Digest string
	// Manifest is that of the module file, which a start would decompress for it.
	Manifest []byte
}

// Modules returns every shipped module.
func Modules() []Module {
	all := []Module{
		{Name: "chat", Kind: "translator", Protocol: "chat", Native: chat.Handler()},
		{Name: "responses", Kind: "translator", Protocol: "responses", History: true, Native: responses.Handler()},
		{Name: "completions", Kind: "translator", Protocol: "completions", Off: true, Native: completions.Handler()},
		{Name: "ollama", Kind: "translator", Protocol: "ollama", Off: true, History: true, Native: ollama.Handler()},
		{Name: "generate-content", Kind: "translator", Protocol: "generate-content", Off: true, History: true,
			Native: generatecontent.Handler()},
		{Name: TariffName, Kind: "billing", Native: tariff.New()},
	}
	digests := built()
	for i := range all {
		all[i].Digest = digests[all[i].Name]
		all[i].Manifest, _ = files.ReadFile("modules/" + all[i].Name + ".json") // none where it was not built
	}
	return all
}

// bytesMax bounds a module file, decompressed.
const bytesMax = 64 << 20

// Wasm returns the module file: code, manifest and golden vectors. It is
// decompressed by each call, and the caller's.
func (m Module) Wasm() ([]byte, error) {
	packed, err := files.ReadFile("modules/" + m.Name + ".wasm.zst")
	if err != nil {
		return nil, fmt.Errorf("module %s was not built: run make wasm: %w", m.Name, err)
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(bytesMax))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(packed, nil)
}

// built returns the digests that BUILT lists by module, and under "toolchain"
// the version that made them.
func built() map[string]string {
	text, err := files.ReadFile("modules/BUILT")
	if err != nil {
		panic(err) // it is compiled in
	}
	lines := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		lines[name] = value
	}
	return lines
}
