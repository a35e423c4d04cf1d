// Command guest is the responses translator as a Wasm module: built with
// GOOS=wasip1 GOARCH=wasm and -buildmode=c-shared it exports node-abi/1.
package main

import (
	"corenode/wasm/responses"
	"corenode/wasm/sdk"
)

func init() { sdk.Serve(responses.Handler()) }

func main() {}
