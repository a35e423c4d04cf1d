// Command guest is the shipped billing module as a Wasm guest. Natively it
// builds to a program that does nothing.
package main

import (
	"corenode/wasm/sdk"
	"corenode/wasm/tariff"
)

func init() { sdk.Serve(tariff.New()) }

func main() {}
