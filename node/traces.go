package main

import (
	"log/slog"
	"os"

	"corenode/node/trace"
)

// openTracer begins to make traces, if the environment says where they go. What cannot be used
// of it ends no start: the same variables are those of other programs.
func (n *node) openTracer() {
	cfg, err := trace.FromEnv(os.Getenv)
	if err != nil {
		n.log.Warn("no traces are made: the environment cannot be used", "error", err.Error())
		return
	}
	if cfg == nil {
		return
	}
	machine, _ := os.Hostname() // without one, the address alone says which node it was
	n.tracer = trace.New(*cfg, trace.Node{Version: version, Address: n.public.Addr().String(), Machine: machine}, n.log)
	n.onClose(slog.LevelWarn, "close the tracer", n.tracer.Close)
	n.log.Info("traces are made", "share", cfg.Share)
}

// traceReadings are what became of traces, by result.
func (n *node) traceReadings() map[string]func() float64 {
	read := func(of func(*trace.Counts) int64) func() float64 {
		return func() float64 {
			if n.tracer == nil {
				return 0
			}
			return float64(of(n.tracer.Counts()))
		}
	}
	return map[string]func() float64{
		"sent":     read(func(c *trace.Counts) int64 { return c.Sent.Load() }),
		"overflow": read(func(c *trace.Counts) int64 { return c.Overflow.Load() }),
		"failed":   read(func(c *trace.Counts) int64 { return c.Failed.Load() }),
	}
}
