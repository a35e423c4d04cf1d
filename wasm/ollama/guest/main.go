// Command guest is the Ollama translator as a module of the node.
package main

import (
	"corenode/wasm/ollama"
	"corenode/wasm/sdk"
)

func init() { sdk.Serve(ollama.Handler()) }

func main() {}
