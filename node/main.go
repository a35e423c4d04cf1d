// Command corenode serves language models over the messages, chat completions
// and responses protocols. This package is the only wiring: it builds the parts and hands them to each
// other; none of them knows more of another than an interface it declares. The commands are in package cli.
package main

import (
	"fmt"
	"os"

	"corenode/node/cli"
)

// version is set by the build.
var version = "dev"

func main() {
	cmd, errs := cli.Root(version, serve), &utf8Writer{to: os.Stderr}
	cmd.AddCommand(cli.DoctorCommand(physicalMemory))
	cmd.SetOut(&utf8Writer{to: os.Stdout})
	cmd.SetErr(errs)
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(errs, "corenode:", err)
		os.Exit(1)
	}
}
