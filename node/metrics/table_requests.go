package metrics

var requests = []Metric{
	{Name: "corenode_info", Type: Gauge, Labels: []string{"version", "go", "config"}, Panel: "Builds",
		Help: "Always 1. The build, Go's version, and a digest of the configuration at the start, without the node's own addresses " +
			"and folders",
		Watch: "nodes of one service that differ"},
	{Name: "corenode_requests_total", Type: Counter, Labels: []string{"route", "status", "kind"}, Panel: "Requests",
		Help: "Requests that ended. `kind` is ok or the error's kind, `status` the one that goes with it (also for a stream that failed " +
			"after its 200). `route` of OPTIONS, whatever path it asks about, is options, and of a module's path its protocol and " +
			"_generate, _count or _models; " +
			"its series are there, at 0, from the first scrape after the module came into service. What another node forwards is " +
			"counted here only as `internal`, when this node is why",
		Watch: "share of `kind=\"internal\"`"},
	{Name: "corenode_internal_errors_total", Type: Counter, Labels: []string{"fault"}, Panel: "Faults of the node",
		Help: "Those of them of kind `internal`, with what another node forwards, by whose `fault` they are: node, or server, one " +
			"elsewhere that failed in the middle of an answer or made a call of a tool that is not valid",
		Watch: "alert on node above 0, on server above 1 % of the answers"},
	{Name: "corenode_refusals_total", Type: Counter, Labels: []string{"kind"}, Panel: "Refusals by cause",
		Help: "Requests that ended in an error before they were admitted. Where a server elsewhere refuses or fails, a stream is; an " +
			"answer without streaming was admitted when it was asked",
		Watch: "`overloaded`: the node is too small, unless it drains, is out of its cluster, its ledger fails, " +
			"a model is down, the servers of a model are down, full or fail, a module is missing or fails and none that ships stands in, " +
			"or the servers of a model cannot keep accounts apart; `rate_limited`, `insufficient_balance`: accounts at their limits"},
	{Name: "corenode_admission_refusals_total", Type: Counter, Labels: []string{"kind"},
		Help:   "Those of them that the actor tree refused, and what another node forwards",
		Hidden: "a part of what Refusals by cause draws"},
	{Name: "corenode_requests_in_flight", Type: Gauge, Panel: "Requests at once",
		Help: "Authenticated requests between headers and end", Watch: "near 4096: the bound"},
	{Name: "corenode_disconnects_total", Type: Counter, Labels: []string{"phase"}, Panel: "Clients that left",
		Help: "Clients that left, in queue (or before, within the body), prefill or decode, counted by the node that they left; in none " +
			"where that is unknown",
		Watch: "a rise in `queue` or `prefill`: clients time out waiting"},
	{Name: "corenode_connections_refused_total", Type: Counter, Panel: "Faults of the node",
		Help: "Connections over `connections_max`", Watch: "alert above 0"},
	{Name: "corenode_body_bytes", Type: Gauge, Unit: "bytes", Panel: "Bodies in memory",
		Help: "Bytes of bodies being read or prepared", Watch: "near `body_bytes_total`"},
	{Name: "corenode_panics_total", Type: Counter, Panel: "Faults of the node",
		Help: "Panics in the front end, answered with a 500", Watch: "alert above 0"},
	{Name: "corenode_draining", Type: Gauge, Panel: "Builds", Help: "1 while the node drains"},
	{Name: "corenode_memory_limit_bytes", Type: Gauge, Unit: "bytes", Hidden: "it does not change",
		Help: "Memory that the node may use: the machine's, or the limit of a control group around it"},
}

var latency = []Metric{
	{Name: "corenode_ttft_seconds", Type: Histogram, Unit: "seconds", Panel: "Time to the first token",
		Help: "Streams: last request byte read to first token written", Watch: "p95 against your objective"},
	{Name: "corenode_itl_seconds", Type: Histogram, Unit: "seconds", Panel: "Gap between tokens",
		Help: "Gap between two tokens of one sequence, in the step loop",
		Watch: "p99; rises with `gap_max` and `gap_stretch_max`. Of several tokens of one step the first carries the gap, " +
			"the others 0"},
	{Name: "corenode_request_seconds", Type: Histogram, Unit: "seconds", Panel: "Request time",
		Help: "Whole request, refused ones and probes too, OPTIONS apart"},
	{Name: "corenode_request_phase_seconds", Type: Histogram, Unit: "seconds", Labels: []string{"phase"}, Panel: "Phases of a request",
		Help: "Where the time of admitted requests went: receive (headers to the last byte of the body), prepare, admission (until the " +
			"model has it), hold (until its row is durable, beside what follows), queue, prefill, decode, settle (end of the answer " +
			"to its charge durable)",
		Watch: "which one grew"},
	{Name: "corenode_queue_seconds", Type: Histogram, Unit: "seconds", Panel: "Queue time",
		Help:  "Accepted to first step, or to the first question to a server; what another node forwards waits on both",
		Watch: "p95; the first sign of too little capacity"},
	{Name: "corenode_prefill_seconds", Type: Histogram, Unit: "seconds", Help: "First step to first token",
		Hidden: "Phases of a request draws the same"},
	{Name: "corenode_decode_seconds", Type: Histogram, Unit: "seconds", Help: "First token to the end",
		Hidden: "Phases of a request draws the same"},
	{Name: "corenode_request_input_tokens", Type: Histogram, Unit: "tokens", Panel: "Lengths of prompts",
		Help: "Prompt tokens of each request that was admitted, found ones included"},
	{Name: "corenode_request_output_tokens", Type: Histogram, Unit: "tokens", Panel: "Lengths of answers",
		Help: "Output tokens of each request that was admitted"},
	{Name: "corenode_step_seconds", Type: Histogram, Unit: "seconds", Panel: "Step time", Help: "One forward pass"},
	{Name: "corenode_step_rows_total", Type: Counter, Unit: "rows", Labels: []string{"kind"}, Panel: "Rows of a step",
		Help:  "Rows computed, prefill and decode",
		Watch: "rate / rate of `corenode_step_seconds_count` is the mean batch"},
	{Name: "corenode_tokens_total", Type: Counter, Unit: "tokens", Labels: []string{"kind"}, Panel: "Tokens",
		Help:  "Billed tokens of requests that ended: prefill (uncached input), cached, decode",
		Watch: "cached / (cached + prefill) is the hit rate by tokens"},
	{Name: "corenode_charged_usd_total", Type: Counter, Unit: "US dollars", Panel: "Money",
		Help: "What requests that ended were charged; refunds and re-ratings later on are in the ledger only"},
}
