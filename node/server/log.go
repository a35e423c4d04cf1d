package server

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"corenode/wasm/abi"
)

// writeLog writes the request's line. It names nothing that a client chose
// freely: no header, body, session id or tool name, and of paths only one that
// does not exist, as loggedPath has it; trace is the id of a trace that is kept. Probes are not worth a line unless
// somebody debugs.
func (x *exchange) writeLog(total time.Duration, trace string) {
	level := slog.LevelInfo
	if x.route == routeHealth || x.route == routeReady || x.route == routeLoad {
		level = slog.LevelDebug
	}
	if !x.s.log.Enabled(context.Background(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 28)
	attrs = append(attrs, slog.String("id", x.id), slog.String("route", x.name()), slog.Int("status", x.status))
	if x.who != nil {
		attrs = append(attrs, slog.String("account", x.who.Account.ID), slog.String("key", x.who.KeyID))
	}
	if x.modelName != "" {
		attrs = append(attrs, slog.String("model", x.modelName), slog.Bool("stream", x.stream))
	}
	if x.settled.Reason != "" {
		attrs = x.appendSettled(attrs)
	}
	attrs = append(attrs, milliseconds("total_ms", total))
	if trace != "" {
		attrs = append(attrs, slog.String("trace", trace))
	}
	if x.ttft > 0 {
		attrs = append(attrs, milliseconds("ttft_ms", x.ttft))
	}
	if x.retries >= 0 {
		attrs = append(attrs, slog.Int("retry", x.retries))
	}
	if x.failed {
		attrs = append(attrs, slog.String("error", x.kind.String()))
		if x.kind == abi.PathNotFound {
			attrs = append(attrs, slog.String("path", loggedPath(pathOf(x.ctx.Request.Header.RequestURI()))))
		}
		if x.op != "" {
			attrs = append(attrs, slog.String("op", x.op))
		}
		if x.kind == abi.Internal && x.cause != nil { // in our own words, so it quotes nothing of a client or a server
			attrs = append(attrs, slog.String("cause", cutCause(x.cause.Error())))
		}
	}
	r := slog.NewRecord(time.Now(), level, "request", 0) // no handler wants the place in the source, which LogAttrs would look for
	r.AddAttrs(attrs...)
	_ = x.s.log.Handler().Handle(context.Background(), r) // as LogAttrs does with its error
}

// causeMax bounds the cause in a line, in bytes: that of a panic has a stack.
const causeMax = 4 << 10

// cutCause shortens a cause, at the end of a character.
func cutCause(text string) string {
	if len(text) <= causeMax {
		return text
	}
	return strings.ToValidUTF8(text[:causeMax], "") + "..."
}

// appendSettled adds what an admitted request cost.
func (x *exchange) appendSettled(attrs []slog.Attr) []slog.Attr {
	u := x.settled.Usage
	attrs = append(attrs,
		slog.String("reason", string(x.settled.Reason)),
		slog.Int64("input_tokens", u.InputUncached), slog.Int64("cache_read_tokens", u.CacheRead),
		slog.Int64("cache_write_tokens", u.CacheWrite),
		slog.Int64("output_tokens", u.Output), slog.Int64("reasoning_tokens", u.Reasoning),
		slog.Int64("charge_nano", int64(x.settled.Charge)),
		milliseconds("queue_ms", x.settled.Queue))
	if x.settled.Prefill > 0 {
		attrs = append(attrs, milliseconds("prefill_ms", x.settled.Prefill))
	}
	if x.settled.Decode > 0 {
		attrs = append(attrs, milliseconds("decode_ms", x.settled.Decode))
	}
	if s := x.settled.Source; s.Replica != "" {
		attrs = append(attrs, slog.String("replica", s.Replica), slog.Int("attempts", x.settled.Attempts))
		if s.Usage != "" {
			attrs = append(attrs, slog.String("usage_source", s.Usage))
		}
	}
	return attrs
}

func milliseconds(name string, d time.Duration) slog.Attr {
	return slog.Float64(name, float64(d.Microseconds())/1000)
}
