package server

import (
	"errors"
	"fmt"
	"time"

	vm "github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"

	"corenode/actors/account"
	"corenode/engine"
	_ "corenode/node/server/quiet" // before the library
	"corenode/wasm/abi"
)

// metricsType is the text format of Prometheus.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// metrics are the node's numbers. Every series is made at the start, but those of the
// routes of modules, which are made when they are first read or counted: no label comes
// from a client, and there are none of accounts.
type metrics struct {
	set  *vm.Set
	more *vm.Set // histograms of which the console draws nothing: they cost more to write than all the rest

	requests [routeModule][]*vm.Counter // by kind, one past the kinds for answers without error
	sockets  *vm.Counter                // WebSockets, whose status their kind does not say
	options  *vm.Counter                // questions what a path allows
	internal [2]*vm.Counter             // internal errors, by whose fault
	refusals []*vm.Counter              // by kind
	left     [3]*vm.Counter             // clients that left, by phase

	prefillTokens, cachedTokens, decodeTokens *vm.Counter
	panics, connectionsRefused, unrefunded    *vm.Counter

	ttft, itl, queue, prefill, decode, total *vm.PrometheusHistogram
	phases                                   [phases]*vm.PrometheusHistogram
	inputTokens, outputTokens                *vm.PrometheusHistogram // of each request
	charged                                  *vm.FloatCounter        // dollars

	steps    *vm.PrometheusHistogram // time of one forward pass
	stepRows [2]*vm.Counter          // rows computed: prefill, decode
}

const (
	phaseQueue = iota
	phasePrefill
	phaseDecode
)

// Whose fault an internal error is.
const (
	ofNode = iota
	ofServer
)

// newMetrics makes all series of a server. Package node/metrics says what each is.
func newMetrics(s *Server) *metrics {
	m := &metrics{set: vm.NewSet(), more: vm.NewSet()}
	m.makeRequests()
	for phase, name := range [...]string{phaseQueue: "queue", phasePrefill: "prefill", phaseDecode: "decode"} {
		m.left[phase] = m.set.NewCounter(fmt.Sprintf(`corenode_disconnects_total{phase="%s"}`, name))
	}
	m.prefillTokens = m.set.NewCounter(`corenode_tokens_total{kind="prefill"}`)
	m.cachedTokens = m.set.NewCounter(`corenode_tokens_total{kind="cached"}`)
	m.decodeTokens = m.set.NewCounter(`corenode_tokens_total{kind="decode"}`)
	m.panics = m.set.NewCounter(`corenode_panics_total`)
	m.unrefunded = m.set.NewCounter(`corenode_unrefunded_total`)
	m.connectionsRefused = m.set.NewCounter(`corenode_connections_refused_total`)
	m.ttft = m.set.NewPrometheusHistogramExt("corenode_ttft_seconds", secondsBuckets)
	m.itl = m.set.NewPrometheusHistogramExt("corenode_itl_seconds", gapBuckets)
	m.queue = m.set.NewPrometheusHistogramExt("corenode_queue_seconds", secondsBuckets)
	m.prefill = m.more.NewPrometheusHistogramExt("corenode_prefill_seconds", secondsBuckets)
	m.decode = m.more.NewPrometheusHistogramExt("corenode_decode_seconds", secondsBuckets)
	m.total = m.more.NewPrometheusHistogramExt("corenode_request_seconds", secondsBuckets)
	for p, name := range phaseNames {
		m.phases[p] = m.more.NewPrometheusHistogramExt(fmt.Sprintf("corenode_request_phase_seconds{phase=%q}", name), secondsBuckets)
	}
	m.inputTokens = m.more.NewPrometheusHistogramExt("corenode_request_input_tokens", tokensBuckets)
	m.outputTokens = m.more.NewPrometheusHistogramExt("corenode_request_output_tokens", tokensBuckets)
	m.charged = m.set.NewFloatCounter("corenode_charged_usd_total")
	m.steps = m.more.NewPrometheusHistogramExt("corenode_step_seconds", gapBuckets)
	m.stepRows[0] = m.set.NewCounter(`corenode_step_rows_total{kind="prefill"}`)
	m.stepRows[1] = m.set.NewCounter(`corenode_step_rows_total{kind="decode"}`)
	m.set.NewGauge("corenode_requests_in_flight", func() float64 { return float64(s.requests.count()) })
	m.set.NewGauge("corenode_body_bytes", func() float64 { return float64(s.bodies.used()) })
	m.set.NewGauge("corenode_draining", func() float64 {
		if s.leaves() {
			return 1
		}
		return 0
	})
	return m
}

func (m *metrics) makeRequests() {
	kinds := abi.Kinds()
	for r := range routeModule {
		for _, k := range kinds {
			status := r.statusOf(k)
			if r == routeUnreadable && k == abi.TooLarge {
				status = 431
			}
			m.requests[r] = append(m.requests[r], m.request(r, fmt.Sprint(status), k.String()))
		}
		m.requests[r] = append(m.requests[r], m.request(r, "200", "ok"))
	}
	m.sockets = m.request(routeResponses, fmt.Sprint(fasthttp.StatusUpgradeRequired), abi.MethodNotAllowed.String())
	m.options = m.set.NewCounter(requestSeries("options", fmt.Sprint(fasthttp.StatusNoContent), "ok"))
	for fault, name := range [...]string{ofNode: "node", ofServer: "server"} {
		m.internal[fault] = m.set.NewCounter(fmt.Sprintf(`corenode_internal_errors_total{fault="%s"}`, name))
	}
	for _, k := range kinds {
		m.refusals = append(m.refusals, m.set.NewCounter(fmt.Sprintf(`corenode_refusals_total{kind="%s"}`, k)))
	}
}

func (m *metrics) request(r route, status, kind string) *vm.Counter {
	return m.set.NewCounter(requestSeries(r.String(), status, kind))
}

func requestSeries(route, status, kind string) string {
	return fmt.Sprintf(`corenode_requests_total{route="%s",status="%s",kind="%s"}`, route, status, kind)
}

// observe counts a request that ended. One that another node forwards is that node's to count; what is counted here too is
// how long it waited for its first step, and a failure of this node's own, which the other one may make good.
func (m *metrics) observe(x *exchange, total time.Duration) {
	admitted := x.settled.Reason != ""
	if admitted {
		m.queue.Update(x.settled.Queue.Seconds())
	}
	if x.failed && x.kind == abi.Internal {
		m.internal[faultOf(x.cause)].Inc()
	}
	if x.fromNode() {
		if x.failed && x.kind == abi.Internal {
			m.outcome(x).Inc()
		}
		return
	}
	if x.status == fasthttp.StatusNoContent { // it asks for no work
		m.options.Inc()
		return
	}
	m.outcome(x).Inc()
	m.total.Update(total.Seconds())
	if admitted {
		m.spent(x)
	} else if x.failed && x.admitted.IsZero() && x.route != routeReady { // a probe asks for no work
		m.refusals[x.kind].Inc()
	}
	if x.failed && x.kind == abi.Canceled && (admitted || x.admitted.IsZero()) { // else nobody knows how far it came
		m.left[phaseOf(x.settled)].Inc()
	}
}

func faultOf(cause error) int {
	if errors.Is(cause, engine.ErrElsewhere) {
		return ofServer
	}
	return ofNode
}

// fromNode says whether another node forwards the request.
func (x *exchange) fromNode() bool { return x.who != nil && x.who.Peer.Forwards() }

// outcome counts the requests of a route that ended like this one.
func (m *metrics) outcome(x *exchange) *vm.Counter {
	if x.module != nil {
		return m.ofModule(&x.resource, x.failed, x.kind)
	}
	if x.status == fasthttp.StatusUpgradeRequired {
		return m.sockets
	}
	of := m.requests[x.route]
	if x.failed {
		return of[x.kind]
	}
	return of[len(of)-1]
}

// ofModule counts the requests of a module's route that ended alike. The name and the statuses are
// its manifest's: there are as many as operators load.
func (m *metrics) ofModule(r *resource, failed bool, k abi.Kind) *vm.Counter {
	status, kind := 200, "ok"
	if failed {
		status, kind = r.statusOf(k), k.String()
	}
	return m.set.GetOrCreateCounter(requestSeries(r.name(), fmt.Sprint(status), kind))
}

// foresee makes the series of the routes that modules answer now, before they are read. One that is
// first seen after its first requests hides them: to who watches its increase it has always been there.
func (m *metrics) foresee(modules []Routed) {
	for _, module := range modules {
		for i := range module.Manifest.Routes {
			module.Index = i // what has the same name has the same series
			r := resource{route: routeModule, family: endpoints[routeModule].family, module: &module}
			m.ofModule(&r, false, 0)
			for _, k := range abi.Kinds() {
				m.ofModule(&r, true, k)
			}
		}
	}
}

// phaseOf says how far a settled request came.
func phaseOf(s account.Settled) int {
	switch {
	case s.Decode > 0 || s.Usage.Output > 0:
		return phaseDecode
	case s.Prefill > 0 || s.Usage.InputUncached > 0:
		return phasePrefill
	}
	return phaseQueue
}

// spent counts what an admitted request used.
func (m *metrics) spent(x *exchange) {
	s := &x.settled
	m.prefillTokens.Add(int(s.Usage.InputUncached))
	m.cachedTokens.Add(int(s.Usage.CacheRead))
	m.decodeTokens.Add(int(s.Usage.Output))
	m.inputTokens.Update(float64(x.inputTokens)) // what was billed may be nothing
	m.outputTokens.Update(float64(s.Usage.Output))
	m.charged.Add(float64(s.Charge) / 1e9)
	for p, took := range x.phases() {
		if took > 0 {
			m.phases[p].Update(took.Seconds())
		}
	}
	if s.Prefill > 0 {
		m.prefill.Update(s.Prefill.Seconds())
	}
	if s.Decode > 0 {
		m.decode.Update(s.Decode.Seconds())
	}
}

// firstToken takes the time of a stream's first token, as it leaves.
func (x *exchange) firstToken(left time.Time) {
	x.ttft = max(1, left.Sub(x.arrived)) // a clock may stand still; 0 is before it
	if !x.fromNode() {
		x.s.metrics.ttft.Update(x.ttft.Seconds())
	}
}

// Bucket bounds in seconds, and in tokens. Gaps between tokens are finer than whole requests.
var (
	secondsBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
		1800, 3600, 7200, 21600}
	tokensBuckets = []float64{1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144,
		524288, 1048576}
	gapBuckets = []float64{.0005, .001, .0025, .005, .01, .02, .03, .05, .075, .1, .15, .25, .5, 1, 2.5, 10}
)

// ObserveGap counts the time between two consecutive tokens of one sequence,
// as the step loop saw it. Any goroutine may call it.
func (s *Server) ObserveGap(d time.Duration) { s.metrics.itl.Update(d.Seconds()) }

// ObserveStep counts one forward pass: its prefill and decode rows and its time.
func (s *Server) ObserveStep(prefill, decode int, took time.Duration) {
	s.metrics.steps.Update(took.Seconds())
	s.metrics.stepRows[0].Add(prefill)
	s.metrics.stepRows[1].Add(decode)
}
