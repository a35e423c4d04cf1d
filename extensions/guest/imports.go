package guest

import (
	"context"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero"

	"corenode/extensions/meter"
)

// importModule is the name under which a guest finds what the node offers.
const importModule = "corenode"

// checkImports refuses whatever a guest wants beyond what it is offered.
func checkImports(info *meter.Info, m *Manifest) error {
	for _, i := range info.Imports {
		name := i.Module + "." + i.Name
		switch {
		case i.Module == importModule:
			f, ok := offered(nil)[i.Name]
			if !ok {
				return Refused("imports", "only corenode.log and corenode.metric exist", "it imports %s", name)
			}
			if !f.fits(i) {
				return Refused("imports", "declare it as the ABI does", "it imports %s with another signature", name)
			}
		case i.Module == wasiModule && m.Runtime == RuntimeGo:
			if err := checkWASI(i); err != nil {
				return err
			}
		case i.Module == wasiModule:
			return Refused("imports",
				`build it without a C library that needs WASI; only manifests that say "runtime": "go" get a stub of it`,
				"it imports %s", name)
		default:
			return Refused("imports", "a module has no authority: it may import corenode.log and corenode.metric only",
				"it imports %s", name)
		}
	}
	return nil
}

// link gives a runtime the functions that a checked module imports.
func link(r wazero.Runtime, c *console, info *meter.Info) error {
	own := offered(c)
	var builders [2]wazero.HostModuleBuilder
	names := [2]string{importModule, wasiModule}
	for _, i := range info.Imports {
		n := slices.Index(names[:], i.Module)
		if builders[n] == nil {
			builders[n] = r.NewHostModuleBuilder(i.Module)
		}
		f := own[i.Name]
		if i.Module == wasiModule {
			f = wasi(c, i)
		}
		builders[n].NewFunctionBuilder().WithGoModuleFunction(f.call, f.params, f.results).Export(i.Name)
	}
	for _, b := range builders {
		if b == nil {
			continue
		}
		if _, err := b.Instantiate(context.Background()); err != nil {
			return fmt.Errorf("link: %w", err)
		}
	}
	return nil
}
