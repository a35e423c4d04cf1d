package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	modulesTimeout = 2 * time.Minute // compiling them for the first time is part of it
	metricsMax     = 4 << 20         // bytes
)

// AwaitModules waits until a node serves with its shipped modules, which it
// loads in the background after its start: that takes seconds of CPU time, and
// before it other code answers. data is the node's data folder; a server that
// tells no admin address there has no modules.
func AwaitModules(ctx context.Context, data string) error {
	addr, err := os.ReadFile(filepath.Join(data, "admin.addr"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, modulesTimeout)
	defer cancel()
	for again := time.NewTicker(100 * time.Millisecond); ; {
		loading, err := modulesLoading(ctx, strings.TrimSpace(string(addr)))
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return false, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, metricsMax))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("/metrics answers %s", res.Status)
	}
	return bytes.Contains(b, []byte("\ncorenode_modules_loading 1\n")), err
}
