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
func (n *node) traceReadings() map[string]float64 {
	c := new(trace.Counts)
	if n.tracer != nil {
		c = n.tracer.Counts()
	}
	return map[string]float64{"sent": float64(c.Sent.Load()), "overflow": float64(c.Overflow.Load()), "failed": float64(c.Failed.Load())}
}
