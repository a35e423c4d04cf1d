// Command guest is the chat translator as a module of the node.
package main

import (
	"corenode/wasm/chat"
	"corenode/wasm/sdk"
)

func init() { sdk.Serve(chat.Handler()) }

func main() {}
