// Command corenode serves language models over the messages, chat completions
// and responses protocols. This package is the only wiring: it builds the parts and hands them to each
// other; none of them knows more of another than an interface it declares. The commands are in package cli.
package main

import (
	"errors"
	"os"

	"corenode/node/cli"
)

// version is set by the build.
var version = "dev"

func main() {
	cmd, out, errs := cli.Root(version, serve, cli.DoctorCommand(physicalMemory)), &utf8Writer{to: os.Stdout}, &utf8Writer{to: os.Stderr}
	cmd.SetOut(out)
	cmd.SetErr(errs)
	err := errors.Join(cmd.Execute(), out.Close())
	if err != nil {
		cli.SayError(errs, err)
	}
	_ = errs.Close() // nobody could be told
	if err != nil {
		os.Exit(1)
	}
}
