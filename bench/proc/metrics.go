package proc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const metricsMax = 4 << 20 // bytes

// adminAddr reads where the node of a data folder listens for operators.
func adminAddr(data string) (string, error) {
	addr, err := os.ReadFile(filepath.Join(data, "admin.addr"))
	return strings.TrimSpace(string(addr)), err
}

// metrics reads /metrics at an admin address.
func metrics(ctx context.Context, addr string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, metricsMax))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("/metrics answers %s", res.Status)
	}
	return b, err
}

// Metric reads one series from the node of a data folder, summed over its labels.
// A series that the node does not have is an error.
func Metric(ctx context.Context, data, name string) (float64, error) {
	addr, err := adminAddr(data)
	if err != nil {
		return 0, err
	}
	b, err := metrics(ctx, addr)
	if err != nil {
		return 0, err
	}
	return sum(b, name)
}

// sum adds the samples of a series in Prometheus' text format.
func sum(text []byte, name string) (total float64, err error) {
	found := false
	for line := range bytes.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(string(line)), name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		total, found = total+v, true
	}
	if !found {
		return 0, fmt.Errorf("the node has no metric %s", name)
	}
	return total, nil
}
