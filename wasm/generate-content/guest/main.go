// Command guest is the generateContent translator as a module of the node.
package main

import (
	generatecontent "corenode/wasm/generate-content"
	"corenode/wasm/sdk"
)

func init() { sdk.Serve(generatecontent.Handler()) }

func main() {}
