package guest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// compileTimeMax bounds how long another process may compile one module. It runs
// at the lowest priority, and processors that are busy with streams leave it a
// few hundredths of one.
const compileTimeMax = 5 * time.Minute

// ErrKilled is the cause of a refusal where somebody killed the process that compiled the module: a moment later it may pass.
var ErrKilled = errors.New("the process that compiled it was killed, as the system does where memory is short")

// Compiler compiles modules outside of this process, which then compiles itself
// what it does not find in the cache.
type Compiler struct {
	// Command is a program with arguments that does what CompileModule does, given
	// the cache folder as one more argument and the module at its standard input.
	Command []string
	// Closing kills the process when it is done. Its cause ends the load.
	Closing context.Context
	// Failed hears why a process compiled nothing.
	Failed func(err error)
}

// compile fills the folder dir of compiled modules, and says whether the module's code is intact there. An error ends the load. The
// process is killed when ctx ends. Where it cannot be started or fails, Failed is
// told, and the caller compiles the module. One that somebody else killed ends the
// load: what took too much memory there would take it here.
func (c *Compiler) compile(ctx context.Context, metered []byte, dir string) (intact bool, err error) {
	within, cancel := context.WithTimeout(ctx, compileTimeMax)
	defer cancel()
	defer context.AfterFunc(c.Closing, cancel)()
	refusal, err := runCompiler(within, c.Command, metered, dir)
	if err == nil && refusal == "" {
		if intact = isIntact(filepath.Join(dir, cacheKey(metered))); !intact {
			err = errors.New("it left no compiled code")
		}
	}
	switch {
	case c.Closing.Err() != nil:
		return false, context.Cause(c.Closing)
	case ctx.Err() != nil:
		return false, ctx.Err()
	case wasKilled(err):
		return false, Refused("compile", "give the node, or its control group, more memory, and load it again",
			"%w: %w", ErrKilled, err)
	case err != nil:
		c.Failed(err)
	case refusal != "":
		return false, refusedByEngine(errors.New(refusal))
	}
	return intact, nil
}

// wasKilled says whether a process ended by a kill that is not of its context.
func wasKilled(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func refusedByEngine(err error) error {
	return Refused("compile", "build it with a current toolchain", "the engine does not take it: %w", err)
}

// refusalBytesMax bounds what is kept of what a compiling process says.
const refusalBytesMax = 4 << 10

// runCompiler runs command for one module. refusal is what the engine has against
// the module, "" for nothing.
func runCompiler(ctx context.Context, command []string, metered []byte, dir string) (refusal string, err error) {
	cmd := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], dir)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.SysProcAttr = childAttributes()
	cmd.WaitDelay = 10 * time.Second
	var answer, complaint firstBytes
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(metered), &answer, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", command[0], cmp.Or(ctx.Err(), err), strings.TrimSpace(string(complaint)))
	}
	return string(answer), nil
}

// firstBytes keeps the first refusalBytesMax bytes that are written.
type firstBytes []byte

func (f *firstBytes) Write(b []byte) (int, error) {
	*f = append(*f, b[:min(len(b), refusalBytesMax-len(*f))]...)
	return len(b), nil
}

// CompileModule is what Compiler.Command does: for good, it lowers the priority of
// this process and ignores what tells it to end, since a service manager may tell all processes of a
// node that has yet to drain, and who needs it no more kills it. It reads a module that a host has metered, and compiles it
// into the folder dir. What the engine has against the module goes to answer; the
// error is why no code is in the folder. No code of the module runs here.
func CompileModule(metered io.Reader, dir string, answer io.Writer) error {
	lowerPriority()
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	return compileInto(metered, dir, answer)
}

// compileInto compiles a module into a folder, with the sum that makes it count:
// only who compiled to the end knows that the files are whole. The host checks
// the sum, as it does with what it finds there at any time. Where the folder keeps nothing it compiles all the same: what takes too much
// memory is killed here, and the node does not try it.
func compileInto(metered io.Reader, dir string, answer io.Writer) error {
	module, err := io.ReadAll(metered)
	if err != nil {
		return fmt.Errorf("read the module: %w", err)
	}
	c, unkept, err := compile(module, dir, false)
	if err != nil {
		_, err = io.WriteString(answer, err.Error())
		return err
	}
	c.close()
	return unkept
}
