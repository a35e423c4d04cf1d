package cli

import "github.com/spf13/cobra"

// moduleCommand holds what authors do with a module file and what operators do
// with the modules of a running node.
func moduleCommand() *cobra.Command {
	return group("module", "Write, check, sign and run Wasm modules",
		`Modules translate protocols (chat, responses and ones of their own), make charges,
admit requests, rewrite them and filter answers. They are Wasm files that a
running node takes, tries out and replaces.

An author needs no node: new writes a project, check says what must be fixed,
bench what a call costs, pack adds manifest and golden vectors, sign signs. An
operator loads a file into the node, tries it as shadow or canary, activates
it, and rolls back. MODULE is a digest, the beginning of one, or name@version.`,
		`  corenode module new --kind billing --lang go discount
  corenode module check discount.wasm
  corenode module sign --key signing.pem discount.wasm
  corenode module load discount.wasm --activate
  corenode module list`,
		append(offlineVerbs(), onlineVerbs()...)...)
}
