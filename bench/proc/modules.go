package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

const modulesTimeout = 2 * time.Minute // compiling them for the first time is part of it

// AwaitModules waits until a node serves with its shipped modules, which it
// loads in the background after its start: that takes seconds of CPU time, and
// before it other code answers. data is the node's data folder; a server that
// tells no admin address there has no modules.
func AwaitModules(ctx context.Context, data string) error {
	addr, err := adminAddr(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, modulesTimeout)
	defer cancel()
	for again := time.NewTicker(100 * time.Millisecond); ; {
		loading, err := modulesLoading(ctx, addr)
		if err != nil {
			return fmt.Errorf("wait for the node's modules: %w", err)
		}
		if !loading {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the node's modules: %w", ctx.Err())
		}
	}
}

// modulesLoading reads the gauge that says so; a node without it loads none.
func modulesLoading(ctx context.Context, addr string) (bool, error) {
	b, err := metrics(ctx, addr)
	return bytes.Contains(b, []byte("\ncorenode_modules_loading 1\n")), err
}
