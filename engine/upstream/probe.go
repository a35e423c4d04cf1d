package upstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// probeTimeout bounds one probe.
const probeTimeout = time.Second

// probe asks a replica, again and again, whether it can answer and how many requests wait
// there, until the model is closed or the replica removed.
func (m *Model) probe(r *replica) {
	ticker := time.NewTicker(m.options.ProbeEvery)
	defer ticker.Stop()
	for !m.gone(r) {
		m.probeOnce(r)
		select {
		case <-ticker.C:
		case <-r.removed:
		case <-m.ctx.Done():
			return
		}
	}
}

// gone says whether a replica was removed; one that is to leave is, when nothing runs there.
func (m *Model) gone(r *replica) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.replicas[r.base] == r && r.leaving && m.set.InFlight(r.base) == 0 {
		m.remove(r)
		m.options.Log.Info("a server of the model that is not named any more is gone", "model", m.options.ID, "replica", r.base)
	}
	return m.replicas[r.base] != r
}

func (m *Model) probeOnce(r *replica) {
	ctx, cancel := context.WithTimeout(m.ctx, probeTimeout)
	defer cancel()
	err := m.healthy(ctx, r)
	waiting, polled := -1.0, false
	if err == nil && m.traits.Metrics != "" {
		waiting, polled = m.queueOf(ctx, r)
	}
	if err == nil {
		err = m.admit(r)
	}
	reason := ""
	if err != nil {
		reason = m.whole(err)
	}
	r.tidy()
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.replicas[r.base] != r {
		return
	}
	if m.set.Probed(r.base, err == nil, reason, now) {
		if err != nil {
			m.counts.Ejections[ReasonProbe].Add(1)
			m.set.Forget(r.base)
		}
		m.options.Log.Warn("a server of the model went out of service, or came back", "model", m.options.ID, "replica", r.base,
			"up", err == nil, "reason", cut(reason, 300))
	}
	if polled {
		m.set.Polled(r.base, waiting, now)
	}
	m.serveWaiting()
}

// get reads a small page of a replica. Of its error all may see the text; of the page only what withoutKey leaves.
func (m *Model) get(ctx context.Context, r *replica, q *question) (status int, page []byte, err error) {
	status, page, err = r.get(ctx, q)
	return status, page, m.keyless(err)
}

// whole is what is wrong with a replica with what it quotes: the answer is to the node's own question, and no client's.
func (m *Model) whole(err error) string {
	if said := quoted(err); said != "" {
		return m.withoutKey(err.Error() + ": " + said)
	}
	return err.Error()
}

// healthy asks the flavor's own page. A server that knows no such page answers 404, which
// says that it lives.
func (m *Model) healthy(ctx context.Context, r *replica) error {
	status, page, err := m.get(ctx, r, &question{http.MethodGet, m.traits.Health, m.header(r, ""), nil})
	switch {
	case err != nil:
		return err
	case status >= 500, status == http.StatusTooManyRequests:
		return fmt.Errorf("%s%s: status %d: %.100s", r.base, m.traits.Health, status, m.withoutKey(string(page)))
	}
	return nil
}

// admit makes a replica that answers ready: its version is logged, and it has to count
// tokens where the node cannot. One that cannot is not taken, and the log says why.
func (m *Model) admit(r *replica) error {
	m.mu.Lock()
	ready := m.ready[r.base]
	m.mu.Unlock()
	if ready {
		return nil
	}
	if m.options.Counter == nil {
		body := fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, m.options.Model)
		ctx, cancel := context.WithTimeout(m.ctx, m.options.CountTimeout)
		defer cancel()
		if _, err := m.countAt(ctx, r, body, nil); err != nil {
			m.options.Log.Error("a server of the model is not taken: it does not count tokens; name a tokenizer", "model", m.options.ID,
				"replica", r.base, "reason", cut(m.whole(err), 300))
			return err
		}
	}
	version := m.versionOf(r)
	m.options.Log.Info("a server of the model answers", "model", m.options.ID, "replica", r.base,
		"flavor", string(m.options.Flavor), "version", version)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.replicas[r.base] == r {
		m.ready[r.base], r.version = true, version
	}
	return nil
}

// versionOf asks for the replica's version; "unknown" where it does not say.
func (m *Model) versionOf(r *replica) string {
	if m.traits.Version == "" {
		return "unknown"
	}
	ctx, cancel := context.WithTimeout(m.ctx, probeTimeout)
	defer cancel()
	_, page, err := m.get(ctx, r, &question{http.MethodGet, m.traits.Version, m.header(r, ""), nil})
	var answer struct {
		Version   string `json:"version"`
		BuildInfo string `json:"build_info"`
	}
	if err != nil || json.Unmarshal(page, &answer) != nil || answer.Version+answer.BuildInfo == "" {
		return "unknown"
	}
	return cut(m.withoutKey(answer.Version+answer.BuildInfo), 100)
}

// queueOf reads the gauge of waiting requests from the replica's metrics.
func (m *Model) queueOf(ctx context.Context, r *replica) (waiting float64, ok bool) {
	status, page, err := m.get(ctx, r, &question{http.MethodGet, m.traits.Metrics, m.header(r, ""), nil})
	if err != nil || status != http.StatusOK {
		return 0, false
	}
	return gauge(page, m.traits.Waiting)
}

// gauge sums the series of a metric, under any of its names, in the text format of
// Prometheus.
func gauge(page []byte, names []string) (sum float64, found bool) {
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		name, _, _ := strings.Cut(line, "{")
		name, _, _ = strings.Cut(name, " ")
		if !slices.Contains(names, name) {
			continue
		}
		fields := strings.Fields(line[strings.LastIndexByte(line, '}')+1:])
		if strings.IndexByte(line, '}') < 0 {
			fields = fields[1:]
		}
		if len(fields) == 0 {
			continue
		}
		if v, err := strconv.ParseFloat(fields[0], 64); err == nil && v >= 0 {
			sum, found = sum+v, true
		}
	}
	return sum, found
}

// resolve asks the DNS for the replicas, again and again: new ones join, lost ones drain.
// A failure changes nothing.
func (m *Model) resolve() {
	ticker := time.NewTicker(m.options.ResolveEvery)
	defer ticker.Stop()
	for {
		m.resolveOnce()
		select {
		case <-ticker.C:
		case <-m.ctx.Done():
			return
		}
	}
}

func (m *Model) resolveOnce() {
	host, port, err := net.SplitHostPort(m.options.DNS)
	if err == nil {
		ctx, cancel := context.WithTimeout(m.ctx, m.options.ResolveEvery)
		defer cancel()
		var hosts []string
		if hosts, err = net.DefaultResolver.LookupHost(ctx, host); err == nil {
			m.followHosts(hosts, port)
			return
		}
	}
	m.options.Log.Warn("the servers of the model could not be looked up; those that are known stay", "model", m.options.ID,
		"name", m.options.DNS, "error", err.Error())
}

// followHosts makes the replicas those at these addresses.
func (m *Model) followHosts(hosts []string, port string) {
	bases := make([]string, len(hosts))
	for i, h := range hosts {
		bases[i] = "http://" + net.JoinHostPort(h, port)
	}
	m.Follow(bases)
}
