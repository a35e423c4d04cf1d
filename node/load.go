package main

import (
	"fmt"
	"io"

	"corenode/engine"
)

// loadSeries are what inference gateways poll, under the names of their model server protocol,
// in the order of modelLoad.values.
var loadSeries = [...]string{"vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc"}

// modelLoad is how busy a model is. pages is 0 where they are another server's, or not known yet.
type modelLoad struct {
	waiting, running, used float64
	pages                  int
}

// values are the values of loadSeries, of those that are known.
func (l modelLoad) values() []float64 {
	if l.pages == 0 {
		return []float64{l.waiting, l.running}
	}
	return []float64{l.waiting, l.running, l.used}
}

// loadOf reads one model. Of servers elsewhere only what this node sent them counts: what
// others ask of them is theirs to tell.
func (n *node) loadOf(id string) modelLoad {
	if m, ok := n.catalog.upstreams[id]; ok {
		r := upstreamReadings(m)
		return modelLoad{waiting: r["upstream_waiting"], running: r["upstream_in_flight"]}
	}
	return engineLoad(n.catalog.engines[id].Stats())
}

func engineLoad(s engine.Stats) modelLoad {
	pages := s.Pool.PagesFree + s.Pool.PagesOwned + s.Pool.PagesCached
	return modelLoad{waiting: float64(s.Scheduler.Waiting), running: float64(s.Scheduler.Running),
		used: float64(s.Pool.PagesOwned) / float64(max(1, pages)), pages: pages}
}

// writeLoad writes how busy each model is, for gateways without a key. It shows nothing of
// accounts, money or prompts.
func (n *node) writeLoad(w io.Writer) {
	loads := make([]modelLoad, 0, len(n.catalog.infos))
	for _, info := range n.catalog.infos {
		loads = append(loads, n.loadOf(info.ID))
	}
	for i, name := range loadSeries {
		fmt.Fprintf(w, "# TYPE %s gauge\n", name)
		for k, info := range n.catalog.infos {
			if values := loads[k].values(); i < len(values) {
				fmt.Fprintf(w, "%s{model_name=%q} %v\n", name, info.ID, values[i])
			}
		}
	}
	fmt.Fprintln(w, "# TYPE vllm:cache_config_info gauge")
	for k, info := range n.catalog.infos {
		if pages := loads[k].pages; pages > 0 {
			fmt.Fprintf(w, "vllm:cache_config_info{model_name=%q,block_size=\"%d\",num_gpu_blocks=\"%d\"} 1\n",
				info.ID, n.cfg.Models[info.ID].KV.PageTokens, pages)
		}
	}
}
