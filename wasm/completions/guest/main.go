// Command guest is the completions translator as a module of the node.
package main

import (
	"corenode/wasm/completions"
	"corenode/wasm/sdk"
)

func init() { sdk.Serve(completions.Handler()) }

func main() {}
