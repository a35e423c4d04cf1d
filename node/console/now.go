package console

import (
	"cmp"
	"net/http"
	"slices"

	"corenode/node/admin"
)

// nowPage is how the node does.
type nowPage struct {
	Line   map[string]float64 // the newest numbers by name
	Charts []chart
}

// chart is a drawing of some lines over time.
type chart struct {
	Title, Names, Unit string
}

var charts = []chart{
	{"Requests that ended, per second", "requests,refused,failed", "1/s"},
	{"Tokens computed here, per second", "computed_in,computed_out", "1/s"},
	{"Tokens of requests that ended, per second", "tokens_in,tokens_cached,tokens_out", "1/s"},
	{"Time to first token", "ttft_p50,ttft_p95,ttft_p99", "s"},
	{"Gap between tokens", "itl_p50,itl_p95,itl_p99", "s"},
	{"Running and waiting", "running,waiting", ""},
	{"Processor", "processor", "cores"},
}

func (c *Console) now(*http.Request, *admin.Client) (any, error) {
	return nowPage{c.history.latest(), charts}, nil
}

// modelRow is what the series say of one model.
type modelRow struct {
	Model  string
	Series map[string]float64 // by family, without the node's name
}

// modelFamilies are the series of models that the pages have.
var modelFamilies = []string{"upstream_in_flight", "upstream_waiting", "sequences_running", "sequences_waiting",
	"sequences_paused", "pages_free", "pages_owned", "pages_cached", "pages_pinned", "pages_evicted_total",
	"prefix_lookups_total", "prefix_hits_total", "prefix_hit_tokens_total", "snapshots", "cache_bytes", "queue_expected_seconds"}

// modelRows are the rows of the models that this node computes, by their ids.
func (c *Console) modelRows() []modelRow {
	rows := []modelRow{}
	for model, series := range c.history.newest() {
		if _, here := series["sequences_running"]; here {
			rows = append(rows, modelRow{model, series})
		}
	}
	slices.SortFunc(rows, func(a, b modelRow) int { return cmp.Compare(a.Model, b.Model) })
	return rows
}
