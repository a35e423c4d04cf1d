package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"corenode/bench/report"
	"corenode/bench/stats"
)

// progressLine is one line on a terminal that is written over and over.
type progressLine struct {
	w     io.Writer
	at    time.Duration
	ended int64
}

// newProgressLine returns nil where there is no terminal: then nothing is shown.
func newProgressLine(w io.Writer, quiet bool) *progressLine {
	file, ok := w.(*os.File)
	if !ok || quiet {
		return nil
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return &progressLine{w: w}
}

func (p *progressLine) show(elapsed time.Duration, now stats.Live) {
	rate := float64(now.Ended-p.ended) / max(elapsed-p.at, time.Millisecond).Seconds()
	p.at, p.ended = elapsed, now.Ended
	ttft := "-"
	if now.TTFTms >= 0 {
		ttft = report.Number(now.TTFTms) + " ms"
	}
	line := fmt.Sprintf("%.0f s  %s/s  %d in flight  %d ended", elapsed.Seconds(), report.Number(rate), now.InFlight, now.Ended)
	if now.Failed > 0 {
		line += fmt.Sprintf("  %d failed", now.Failed)
	}
	if now.NotSent > 0 {
		line += fmt.Sprintf("  %d not sent", now.NotSent)
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s  TTFT p50 %s", line, ttft)
}

// clear takes the line away.
func (p *progressLine) clear() {
	if p != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
