package store

import (
	"context"
	"errors"
)

// ErrOutdated means that another node changed what was to be replaced.
var ErrOutdated = errors.New("another node changed it at the same time; try again")

// The names of what nodes have in common.
const (
	CommonPrices  = "prices"  // of models, as JSON
	CommonRollout = "rollout" // which modules serve, as package extensions keeps it
	CommonModules = "modules" // has no value; its number rises with every change of a module file
)

// Common is what must be the same on every node, in a store that many share. A node asks for the
// numbers, and reads what has another one than it knows.
type Common interface {
	// Numbers are those of everything that was ever set, by name.
	Numbers(context.Context) (map[string]int64, error)
	// Common reads a value and its number; 0 when it was never set.
	Common(name string) (value []byte, number int64, err error)
	// SetCommon replaces a value whose number still is before, and returns its next one, or
	// ErrOutdated.
	SetCommon(name string, before int64, value []byte) (number int64, err error)
	// PutModule keeps a module file, or gives one that is there another signature and configuration.
	// ask is AskModule.
	PutModule(m ModuleFile, ask bool) error
	// AskModule asks every node to have a module in memory.
	// number is that of the module files since.
	AskModule(digest string) (number int64, err error)
	// DropModules removes module files, a hundred at a time, but those that were asked for within the last hour.
	DropModules(digests []string) error
	// ModuleFiles visits the modules that changed after a number, and returns the number by now.
	ModuleFiles(after int64, visit func(ModuleFile) error) (number int64, err error)
	// ModuleList returns all modules without the files themselves, and the number by now.
	ModuleList() (all []ModuleFile, number int64, err error)
	// ModuleWasm returns the file of one, or ErrNotFound.
	ModuleWasm(digest string) ([]byte, error)
	// Report keeps what this node says of itself, until the next time.
	Report(NodeReport) error
	// Reports are those of the live nodes, by id; of one that has not reported yet it is empty.
	Reports() (map[string]NodeReport, error)
}

// ModuleFile is a module as an operator loaded it.
type ModuleFile struct {
	Digest                  string // sha256:...
	Wasm, Signature, Config []byte
	// Asked says that it was asked for within the last hour: it is to be in memory without a role, too.
	Asked bool
}

// NodeReport is what one node says of what it has in common with others.
type NodeReport struct {
	Rollout int64             `json:"rollout"` // the number that it follows
	Modules int64             `json:"modules"` // the number of the module files that it has
	Loaded  map[string]string `json:"loaded"`  // modules in memory, and the digests of their configurations
	Failed  map[string]string `json:"failed"`  // modules that it cannot load, and why
	// Address is the base URL where other nodes ask for the models that it shares; Pin is the SHA-256
	// of its certificate there, in hex, empty on loopback. Models are these, with the digests of their files.
	Address string            `json:"address,omitempty"`
	Pin     string            `json:"pin,omitempty"`
	Models  map[string]string `json:"models,omitempty"`
}
