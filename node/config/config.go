// Package config turns a YAML file, the environment and the command line into
// one validated value.
//
// Later sources win: defaults, the file, CORENODE_ variables, flags. Unknown
// keys and bad values are all reported at once, each with its key and, when it
// came from the file, its line. A loaded Config is never changed: a reload
// makes a new one. reference.yaml is the same documentation for operators; a
// test keeps it equal to the defaults here.
package config

import (
	"cmp"
	"crypto/ed25519"
	_ "embed"
	"encoding/base64"
	"slices"
	"time"

	"corenode/extensions"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

//go:embed reference.yaml
var reference []byte

// Reference returns a YAML file that documents every key and holds exactly the defaults.
func Reference() []byte { return append([]byte(nil), reference...) }

// Size is a number of bytes, written as an integer or with a unit: KiB, MiB, GiB, TiB, kB, MB, GB, TB.
type Size int64

// Price is nano-dollars per token, written as dollars per million tokens.
type Price abi.Nano

// priceMissing stands for a price that no source gave.
const priceMissing Price = -1

// Config is everything that can be set. Keys are those of the YAML file.
type Config struct {
	// Listen is the address of the API, host:port. Default 127.0.0.1:8080.
	Listen string `key:"listen"`
	// DataDir is the folder of the node's database, keys and caches; one node per folder. Default ./data.
	DataDir string           `key:"data_dir"`
	Server  Server           `key:"server"`
	Admin   Admin            `key:"admin"`
	Log     Log              `key:"log"`
	Limits  Limits           `key:"limits"`
	Modules Modules          `key:"modules"`
	Store   Store            `key:"store"`
	Cluster Cluster          `key:"cluster"`
	Ledger  Ledger           `key:"ledger"`
	Cache   Cache            `key:"cache"`
	Models  map[string]Model `key:"models"` // by model id; at least one
}

// Server is how the API is offered to browsers, other nodes and gateways.
type Server struct {
	// CORSOrigins are the origins, such as https://chat.example.com, whose pages may
	// call the API from a browser; "*" alone is every origin. Credentials of the
	// browser are never allowed: pages send a key. Default none.
	CORSOrigins []string `key:"cors_origins"`
	// PeerKeys are the ids of keys with which other nodes ask for models of this one. Of their
	// requests the accounts, limits and charges are the other node's. Default none.
	PeerKeys []string `key:"peer_keys"`
	// InferenceMetrics shows at /metrics of the API, without a key, how busy each model is:
	// what inference gateways poll. Default false.
	InferenceMetrics bool `key:"inference_metrics"`
	// TLSCertificate and TLSKey are files in PEM, the chain and its key, with which the API speaks
	// TLS (1.2 or later) and nothing else. Replaced files are taken at a reload, and within a
	// minute without one. Default none: plain HTTP.
	TLSCertificate string `key:"tls_certificate"`
	TLSKey         string `key:"tls_key"`
}

// Admin is the address of operators: accounts, keys, drain, metrics.
type Admin struct {
	// Listen is its address. Port 0 picks a free one, written to admin.addr in
	// the data folder. Default 127.0.0.1:0.
	Listen string `key:"listen"`
	// AllowRemote permits an address that other machines reach. Without TLS its traffic,
	// token included, is not encrypted. Default false.
	AllowRemote bool `key:"allow_remote"`
	// TokenFile has the node's own admin token, that of an owner. It is made where it is
	// absent. Default none: each start makes a token.
	TokenFile string `key:"token_file"`
	// Operators are the others who may use the listener, each NAME:ROLE:SHA256 with the hash of
	// a token. The roles are viewer, operator and owner. Default none.
	Operators []string `key:"operators"`
	// TLSCertificate and TLSKey are as those of Server, for this listener. Without them the
	// console answers only on the node's own machine. Default none.
	TLSCertificate string `key:"tls_certificate"`
	TLSKey         string `key:"tls_key"`
}

// Log says what is written to standard error, one JSON object per line.
type Log struct {
	// Level is the least severe line written: debug, info, warn or error. Default info.
	Level string `key:"level"`
}

// Limits bound what clients can make the node spend.
type Limits struct {
	// ConnectionsMax is the most client connections at once. Default 20000.
	ConnectionsMax int `key:"connections_max"`
	// HeaderBytesMax is the most bytes of a request's line and headers; each
	// connection has a buffer of this size. Default 16KiB.
	HeaderBytesMax Size `key:"header_bytes_max"`
	// HeaderTimeout bounds the time until the headers are in. Default 10s.
	HeaderTimeout time.Duration `key:"header_timeout"`
	// BodyTimeout bounds the time until the body is in. Default 60s.
	BodyTimeout time.Duration `key:"body_timeout"`
	// IdleTimeout closes a connection without a request. Default 2m.
	IdleTimeout time.Duration `key:"idle_timeout"`
	// BodyBytesMax is the most bytes of one request body, after decompression. Default 32MiB.
	BodyBytesMax Size `key:"body_bytes_max"`
	// BodyBytesTotal bounds all bodies being read or prepared, node-wide. Default 512MiB.
	BodyBytesTotal Size `key:"body_bytes_total"`
	// PrepareConcurrency is how many bodies are parsed, rendered and tokenized at
	// once, node-wide; over it a request is 503. Default 64.
	PrepareConcurrency int `key:"prepare_concurrency"`
	// QueueRequestsMax is the most requests per model that wait for their first step. Default 1024.
	QueueRequestsMax int `key:"queue_requests_max"`
	// QueueTokensMax is the most prompt tokens that wait, per model. Default 8000000.
	QueueTokensMax int64 `key:"queue_tokens_max"`
	// QueueTimeout is the longest wait for the first step. Default 60s.
	QueueTimeout time.Duration `key:"queue_timeout"`
	// NonstreamingTimeout ends a non-streaming request with a 504. Default 600s.
	NonstreamingTimeout time.Duration `key:"nonstreaming_timeout"`
	// SlowReaderPause is how long a client may not read before its sequence is preempted. Default 30s.
	SlowReaderPause time.Duration `key:"slow_reader_pause"`
	// SlowReaderCancel is how long until it is cancelled and billed. Default 5m.
	SlowReaderCancel time.Duration `key:"slow_reader_cancel"`
	// DrainTimeout is how long streams may finish after SIGTERM. Default 60s.
	DrainTimeout time.Duration `key:"drain_timeout"`
	// Keepalive is the longest silence of a stream. Default 10s.
	Keepalive time.Duration `key:"keepalive"`
	// CountCachedInput makes prompt tokens that came from the prefix cache count
	// against tokens per minute. Default false.
	CountCachedInput bool `key:"count_cached_input"`
	// SessionsPerAccount is the most conversations remembered per account. Default 1000.
	SessionsPerAccount int `key:"sessions_per_account"`
	// SessionIdle is when a conversation without requests is forgotten. Default 10m.
	SessionIdle time.Duration `key:"session_idle"`
	// PinnedBytesPerAccount bounds the cache that sessions of one account hold. Default 256MiB.
	PinnedBytesPerAccount Size `key:"pinned_bytes_per_account"`
}

// Store says where accounts, keys and the ledger are.
type Store struct {
	// URL is a PostgreSQL database that nodes share, postgres://user@host/database without
	// a password. What it leaves out is in the usual PG variables. Default none: they are in the data folder.
	URL string `key:"url"`
	// PasswordFile has the database's password; only its owner may read it. Default none:
	// PGPASSWORD or a password file of PostgreSQL.
	PasswordFile string `key:"password_file"`
}

// Cluster says what the nodes that share a database do for each other.
type Cluster struct {
	// ShareModels are the models of this node's own engines whose requests may be computed by
	// another node that has them, where the conversation's prefix is cached; "true" alone is all. Default none.
	ShareModels []string `key:"share_models"`
	// Listen is where other nodes ask for these models: host:port. Default 127.0.0.1:0, which is for
	// nodes on one machine.
	Listen string `key:"listen"`
	// Address is what the others are told instead, where they reach the node under another
	// host:port. Default none: Listen, which then is no wildcard.
	Address string `key:"address"`
}

// Shares says whether a model is shared with other nodes.
func (c Cluster) Shares(model string) bool {
	return slices.Contains(c.ShareModels, model) || slices.Equal(c.ShareModels, []string{allModels})
}

// allModels in the place of a list stands for all.
const allModels = "true"

// Ledger says how charges are kept when the database cannot take them.
type Ledger struct {
	// SpillBytes is the size of the spill journal, a file of that size in the data
	// folder: rows go there while the database is slow or gone. 1MiB to 64GiB. Default 64MiB.
	SpillBytes Size `key:"spill_bytes"`
}

// Cache says what becomes of the prefix caches at a restart.
type Cache struct {
	// Keep is the most bytes that each model's prefix cache takes in the data folder, where a drain
	// leaves it for the next start; 0 keeps nothing. The files hold the tokens of prompts and
	// answers. 0, or 1MiB to 16TiB. Default 0.
	Keep Size `key:"keep"`
}

// Modules says which Wasm modules the node takes and what they may use.
type Modules struct {
	// TrustedKeys are the ed25519 public keys, in base64, whose signature a module
	// needs; corenode module keygen prints one. Default none: only the shipped modules run.
	TrustedKeys []string `key:"trusted_keys"`
	// Denied are modules that are not taken, whoever signed them: sha256:DIGEST, or
	// NAME<VERSION for every version below one. Default none.
	Denied []string `key:"denied"`
	// AllowUnsigned takes modules without a signature: for a machine on which
	// modules are written. Default false.
	AllowUnsigned bool `key:"allow_unsigned"`
	// CacheDir is the folder of compiled modules. What is in it is run: it is made
	// private, and it belongs on a disk that only the node writes to. Empty = cache
	// in data_dir/modules. Default empty.
	CacheDir string `key:"cache_dir"`
	// InstancesMax bounds the instances of each loaded module; 0 = two per
	// processor. Default 0.
	InstancesMax int `key:"instances_max"`
	// CPUShare is the share of the processors that the modules of one slot may use,
	// 0.01 to 1. Over it calls wait, for each request at most 100 ms, and then what
	// stands behind the slot answers. Default 0.5.
	CPUShare float64 `key:"cpu_share"`
	// CanaryFactor is how many times the ticks, or the processor time, of the active
	// module's calls those of a canary may take; one that takes more is rolled
	// back. Default 3.
	CanaryFactor float64 `key:"canary_factor"`
	// CanaryCallsMin is how many calls of an operation both must have made before
	// they are compared. Default 200.
	CanaryCallsMin int `key:"canary_calls_min"`
	// AdmissionFailOpen admits requests when the admission module fails; else they
	// are refused with 503. Default false.
	AdmissionFailOpen bool `key:"admission_fail_open"`
	// NameServedModel makes answers name the model that a rewrite module chose for the
	// request; else they name the one that the client asked for. Default false.
	NameServedModel bool `key:"name_served_model"`
}

// Keys returns the trusted keys. They are valid in a loaded Config.
func (m Modules) Keys() []ed25519.PublicKey {
	var keys []ed25519.PublicKey
	for _, text := range m.TrustedKeys {
		if key, err := base64.StdEncoding.DecodeString(text); err == nil && len(key) == ed25519.PublicKeySize {
			keys = append(keys, key)
		}
	}
	return keys
}

// Denials returns the denied modules. They are valid in a loaded Config.
func (m Modules) Denials() (all []extensions.Denial) {
	for _, text := range m.Denied {
		if d, err := extensions.ParseDenial(text); err == nil {
			all = append(all, d)
		}
	}
	return all
}

// Engines that a model can name.
const (
	EngineCPU     = "cpu"
	EngineCUDA    = "cuda"    // an NVIDIA GPU, in a program that was built for it
	EngineInstant = "instant" // computes nothing: for measuring the node itself
	// EngineUpstream asks servers elsewhere: see Upstream.
	EngineUpstream = "upstream"
)

// Values of Upstream.Verify.
const (
	VerifyRefuse = "refuse"
	VerifyCount  = "count"
)

// Upstream says which servers answer a model whose engine is upstream.
type Upstream struct {
	// Flavor is the make of the servers: vllm, sglang, llama-server, corenode, or any
	// server of the protocols messages or chat. Default empty.
	Flavor string `key:"flavour"`
	// URLs are the base URLs of the servers, without /v1. Default none.
	URLs []string `key:"urls"`
	// DNS, instead of urls, is name:port; the addresses behind the name are asked for every 5 s:
	// new servers join, lost ones drain. Default empty.
	DNS string `key:"dns"`
	// Model is the model's name at the servers; empty = its id here. Default empty.
	Model string `key:"model"`
	// KeyFile is a file with the key that the servers ask for. Default empty.
	KeyFile string `key:"key_file"`
	// Tokenizer is the model's tokenizer, for exact counts: a GGUF file, with models.ID.template
	// or the file's own chat template. Empty = the servers are asked to count. Default empty.
	Tokenizer string `key:"tokenizer"`
	// SharedCache lets accounts share the prefix cache of servers that cannot keep accounts
	// apart. Cached tokens are then neither shown nor discounted. Default false.
	SharedCache bool `key:"shared_cache"`
	// Verify says what becomes of a tool call that does not fit its tool's schema: refuse ends
	// the answer with an error, count lets it through and counts it. Default refuse.
	Verify string `key:"verify"`
	// ConnectionsMax is the most requests on one server at once. Default 256.
	ConnectionsMax int `key:"connections_max"`
	// FirstTokenTimeout is the longest wait for the first content of a server's answer, StallTimeout
	// for each further piece. Another node may only ping for as long as FirstTokenTimeout, while it
	// writes a call. Defaults 10m, 60s.
	FirstTokenTimeout time.Duration `key:"first_token_timeout"`
	StallTimeout      time.Duration `key:"stall_timeout"`
}

// Values of Model.Speculation.
const (
	SpeculationAuto = "auto"
	SpeculationOff  = "off"
)

// Model says which engine answers behind a model id.
type Model struct {
	// Engine is cpu; cuda, in a program built for GPUs; upstream, which asks servers elsewhere; or instant: a measuring engine
	// that computes nothing and answers at once with as many tokens as asked for. Default cpu.
	Engine string `key:"engine"`
	// StepTime is how long a step of the instant engine takes, at most a second. Default 0.
	StepTime time.Duration `key:"step_time"`
	// Path is the model file; empty = the one embedded in the binary. Default empty.
	Path string `key:"path"`
	// Template is a file with the chat template; empty = the model file's own. Default empty.
	Template string `key:"template"`
	// TemplateDate, as 2026-01-31, is the day that a chat template is told when it
	// asks for the date; empty = that of each request, in UTC. Default empty.
	TemplateDate string `key:"template_date"`
	// TemplateSchema tells the chat template the JSON schema of a request's answer, as
	// response_schema. The embedded model's own template always has it. Default false.
	TemplateSchema bool `key:"template_schema"`
	// ContextLength is the most tokens of prompt and output; 0 = what the model
	// file says, as far as kv.memory_bytes holds it; the embedded models accept
	// 262144. Default 0.
	ContextLength int `key:"context_length"`
	// OutputMax is the most tokens of one answer; 0 = the context length. Default 0.
	OutputMax int `key:"output_max"`
	// DisplayName is shown by GET /v1/models; empty = the id. Default empty.
	DisplayName string `key:"display_name"`
	// Prices have no default, except those of core-1.1 and core-1.1-mini: nothing is free by accident.
	Prices   Prices   `key:"prices"`
	Sampling Sampling `key:"sampling"`
	Upstream Upstream `key:"upstream"`
	KV       KV       `key:"kv"`
	Batch    Batch    `key:"batch"`
	// Speculation is auto, or off: auto computes several tokens of an answer in one
	// step where they are likely to be what its prompt or output said before, or a
	// prediction layer (MTP) of the model file says so, and that is measured to pay.
	// Answers are the same with both. Default auto.
	Speculation string `key:"speculation"`
	// Threads compute the model; 0 = one per processor. Default 0.
	Threads int `key:"threads"`
}

// Prices are dollars per million tokens, exact to the nano-dollar per token:
// at most three decimals. Write them in quotes.
type Prices struct {
	Input       Price `key:"input"`
	CachedInput Price `key:"cached_input"`
	Output      Price `key:"output"`
}

// Rates returns the prices as the tariff takes them.
func (p Prices) Rates() builtin.Prices {
	return builtin.Prices{Input: abi.Nano(p.Input), Cached: abi.Nano(p.CachedInput), Output: abi.Nano(p.Output)}
}

// Sampling holds the values of parameters that a request leaves out; nil = what the model file says, else the card of its family,
// and for an embedded model 0.3, 0.95, 20, 0 and 0.
type Sampling struct {
	Temperature     *float64 `key:"temperature"`      // 0 or more; 0 is greedy
	TopP            *float64 `key:"top_p"`            // above 0, at most 1
	TopK            *int     `key:"top_k"`            // 0 = off
	MinP            *float64 `key:"min_p"`            // 0 to 1
	PresencePenalty *float64 `key:"presence_penalty"` // -2 to 2
}

// KV bounds the caches of a model. Memory is taken when it is first used, that of a GPU at once.
type KV struct {
	// DType is the type of a cached number: f16, f32 (twice the memory) or q8 (about
	// half: 8-bit codes, 32 of which share a scale). Default f16.
	DType string `key:"dtype"`
	// PageTokens is the positions of one page: 16, 32 or 64. Default 32.
	PageTokens int `key:"page_tokens"`
	// MemoryBytes holds the pages of all sequences and the prefix cache; 0 = a quarter of
	// the machine's memory and at least 640 MiB, of a GPU most of what is free. Default 0.
	MemoryBytes Size `key:"memory_bytes"`
	// StateDType, of a GPU, is the type of a number of a recurrent state: f32, or bf16 for half of the
	// memory and of what is read. Default f32.
	StateDType string `key:"state_dtype"`
	// StateMemoryBytes holds the states of recurrent layers, those of running
	// sequences and the snapshots of the prefix cache; 0 = an eighth of the machine's
	// memory and at least 256 MiB, of a GPU a quarter of what is free. Default 0.
	StateMemoryBytes Size `key:"state_memory_bytes"`
	// HostStateMemoryBytes, of a GPU, is page-locked memory of the machine for the snapshots that
	// its own memory has no room for, those used longest ago. It is taken at the start. Default 0: none.
	HostStateMemoryBytes Size `key:"host_state_memory_bytes"`
}

// What the automatic sizes of pages and of states do not go under: the embedded models'
// context window must fit on any machine. Memory is taken only when it is used.
const (
	PageBytesMin  = 640 << 20
	StateBytesMin = 256 << 20
)

// Pages are the bytes of pages on a machine of this much memory, where no GPU holds them.
func (k KV) Pages(memory int64) int64 {
	return cmp.Or(int64(k.MemoryBytes), max(memory/4, PageBytesMin))
}

// States are those of recurrent states, likewise.
func (k KV) States(memory int64) int64 {
	return cmp.Or(int64(k.StateMemoryBytes), max(memory/8, StateBytesMin))
}

// Batch says how sequences are grouped into engine steps.
type Batch struct {
	// StepTokensMax is the most tokens one step computes, prefill and decode
	// together. Larger raises throughput and the gap between tokens. Default 512.
	StepTokensMax int `key:"step_tokens_max"`
	// SequencesMax is the number of slots, at most StepTokensMax: each running
	// sequence needs one token of every decode step. Default 32.
	SequencesMax int `key:"sequences_max"`
	// GapMax is the longest that a stream should wait for its next token. The rows
	// of prompts in a step, and the requests that run at once, are bounded so
	// that the steps stay within it, by what steps were measured to take. Default 150ms.
	GapMax time.Duration `key:"gap_max"`
	// GapStretchMax is how many times as long as for a stream alone that wait
	// should be at most, within GapMax; 0 is no bound. Lower keeps streams fast
	// under load, higher computes more tokens per second. Default 3.
	GapStretchMax int `key:"gap_stretch_max"`
	// ChunkTokens is the most prompt tokens of a step in which something decodes, a
	// multiple of 64, at most StepTokensMax; 0 = as many as the gap allows. Default 0.
	ChunkTokens int `key:"chunk_tokens"`
}

// Default returns the configuration of a node that was told nothing.
func Default() *Config {
	return &Config{
		Listen: "127.0.0.1:8080", DataDir: "./data",
		Admin: Admin{Listen: "127.0.0.1:0"}, Cluster: Cluster{Listen: "127.0.0.1:0"},
		Log: Log{Level: "info"}, Ledger: Ledger{SpillBytes: 64 << 20},
		Modules: Modules{CPUShare: extensions.CPUShareDefault, CanaryFactor: extensions.CanaryFactorDefault,
			CanaryCallsMin: extensions.CanaryCallsMinDefault},
		Limits: Limits{
			ConnectionsMax: 20000, HeaderBytesMax: 16 << 10,
			HeaderTimeout: 10 * time.Second, BodyTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
			BodyBytesMax: 32 << 20, BodyBytesTotal: 512 << 20, PrepareConcurrency: 64,
			QueueRequestsMax: 1024, QueueTokensMax: 8_000_000, QueueTimeout: time.Minute,
			NonstreamingTimeout: 600 * time.Second, SlowReaderPause: 30 * time.Second, SlowReaderCancel: 5 * time.Minute,
			DrainTimeout: time.Minute, Keepalive: 10 * time.Second,
			SessionsPerAccount: 1000, SessionIdle: 10 * time.Minute, PinnedBytesPerAccount: 256 << 20,
		},
		Models: map[string]Model{"core-1.1": defaultModel("core-1.1"), "core-1.1-mini": defaultModel("core-1.1-mini")},
	}
}

// defaultModel is what an entry under models starts from.
func defaultModel(id string) Model {
	m := Model{
		Engine: EngineCPU, Speculation: SpeculationAuto,
		Prices:   Prices{priceMissing, priceMissing, priceMissing},
		Upstream: Upstream{Verify: VerifyRefuse, ConnectionsMax: 256, FirstTokenTimeout: 10 * time.Minute, StallTimeout: time.Minute},
		KV:       KV{DType: "f16", PageTokens: 32, StateDType: "f32"},
		Batch:    Batch{StepTokensMax: 512, SequencesMax: 32, GapMax: 150 * time.Millisecond, GapStretchMax: 3},
	}
	switch id {
	case "core-1.1":
		m.DisplayName, m.Prices = "Core 1.1", Prices{240, 24, 2400}
	case "core-1.1-mini":
		m.DisplayName, m.Prices = "Core 1.1 mini", Prices{80, 8, 800}
	}
	return m
}
