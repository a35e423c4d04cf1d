// Package config turns a YAML file, the environment and the command line into
// one validated value.
//
// Later sources win: defaults, the file, CORENODE_ variables, flags. Unknown
// keys and bad values are all reported at once, each with its key and, when it
// came from the file, its line. A loaded Config is never changed: a reload
// makes a new one. reference.yaml says what each key means; tests keep it equal
// to the defaults here, and write the tables of OPERATING.md from it.
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

// Config is everything that can be set. Keys are those of the YAML file, and reference.yaml says what
// each does: comments of fields have only what code must know besides.
type Config struct {
	Listen  string           `key:"listen"`
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
	CORSOrigins      []string `key:"cors_origins"`
	PeerKeys         []string `key:"peer_keys"`
	InferenceMetrics bool     `key:"inference_metrics"`
	TLSCertificate   string   `key:"tls_certificate"`
	TLSKey           string   `key:"tls_key"`
}

// Admin is the address of operators: accounts, keys, drain, metrics.
type Admin struct {
	Listen         string   `key:"listen"`
	AllowRemote    bool     `key:"allow_remote"`
	TokenFile      string   `key:"token_file"`
	Operators      []string `key:"operators"`
	TLSCertificate string   `key:"tls_certificate"`
	TLSKey         string   `key:"tls_key"`
}

// Log says what is written to standard error, one JSON object per line.
type Log struct {
	Level string `key:"level"`
}

// Limits bound what clients can make the node spend.
type Limits struct {
	ConnectionsMax        int           `key:"connections_max"`
	HeaderBytesMax        Size          `key:"header_bytes_max"`
	HeaderTimeout         time.Duration `key:"header_timeout"`
	BodyTimeout           time.Duration `key:"body_timeout"`
	IdleTimeout           time.Duration `key:"idle_timeout"`
	BodyBytesMax          Size          `key:"body_bytes_max"`
	BodyBytesTotal        Size          `key:"body_bytes_total"`
	PrepareConcurrency    int           `key:"prepare_concurrency"`
	QueueRequestsMax      int           `key:"queue_requests_max"`
	QueueTokensMax        int64         `key:"queue_tokens_max"`
	QueueTimeout          time.Duration `key:"queue_timeout"`
	NonstreamingTimeout   time.Duration `key:"nonstreaming_timeout"`
	SlowReaderPause       time.Duration `key:"slow_reader_pause"`
	SlowReaderCancel      time.Duration `key:"slow_reader_cancel"`
	DrainDelay            time.Duration `key:"drain_delay"`
	DrainTimeout          time.Duration `key:"drain_timeout"`
	Keepalive             time.Duration `key:"keepalive"`
	CountCachedInput      bool          `key:"count_cached_input"`
	SessionsPerAccount    int           `key:"sessions_per_account"`
	SessionIdle           time.Duration `key:"session_idle"`
	PinnedBytesPerAccount Size          `key:"pinned_bytes_per_account"`
}

// Store says where accounts, keys and the ledger are.
type Store struct {
	URL          string `key:"url"`
	PasswordFile string `key:"password_file"`
}

// Cluster says what the nodes that share a database do for each other.
type Cluster struct {
	// ShareModels is a list of models, or allModels alone.
	ShareModels []string `key:"share_models"`
	Listen      string   `key:"listen"`
	Address     string   `key:"address"`
}

// Shares says whether a model is shared with other nodes.
func (l Cluster) Shares(model string) bool {
	return slices.Contains(l.ShareModels, model) || slices.Equal(l.ShareModels, []string{allModels})
}

// allModels in the place of a list stands for all.
const allModels = "true"

// Ledger says how charges are kept when the database cannot take them.
type Ledger struct {
	SpillBytes Size `key:"spill_bytes"`
}

// Cache says what becomes of the prefix caches at a restart.
type Cache struct {
	Keep Size `key:"keep"`
}

// Modules says which Wasm modules the node takes and what they may use.
type Modules struct {
	TrustedKeys       []string `key:"trusted_keys"`
	Denied            []string `key:"denied"`
	AllowUnsigned     bool     `key:"allow_unsigned"`
	CacheDir          string   `key:"cache_dir"`
	InstancesMax      int      `key:"instances_max"`
	CPUShare          float64  `key:"cpu_share"`
	CanaryFactor      float64  `key:"canary_factor"`
	CanaryCallsMin    int      `key:"canary_calls_min"`
	AdmissionFailOpen bool     `key:"admission_fail_open"`
	NameServedModel   bool     `key:"name_served_model"`
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
	Flavor            string        `key:"flavour"`
	URLs              []string      `key:"urls"`
	DNS               string        `key:"dns"`
	Model             string        `key:"model"`
	KeyFile           string        `key:"key_file"`
	Tokenizer         string        `key:"tokenizer"`
	Sampling          []string      `key:"sampling"`
	SharedCache       bool          `key:"shared_cache"`
	Verify            string        `key:"verify"`
	ConnectionsMax    int           `key:"connections_max"`
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
	Engine         string        `key:"engine"`
	StepTime       time.Duration `key:"step_time"`
	Path           string        `key:"path"`
	Template       string        `key:"template"`
	TemplateDate   string        `key:"template_date"`
	TemplateSchema bool          `key:"template_schema"`
	ContextLength  int           `key:"context_length"`
	OutputMax      int           `key:"output_max"`
	ThinkingMax    int           `key:"thinking_max"`
	DisplayName    string        `key:"display_name"`
	Prices         Prices        `key:"prices"`
	Sampling       Sampling      `key:"sampling"`
	Upstream       Upstream      `key:"upstream"`
	KV             KV            `key:"kv"`
	Batch          Batch         `key:"batch"`
	Speculation    string        `key:"speculation"`
	Threads        int           `key:"threads"`
}

// Prices are dollars per million tokens, exact to the nano-dollar per token:
// at most three decimals. Write them in quotes.
type Prices struct {
	Input       Price `key:"input"`
	CachedInput Price `key:"cached_input"`
	Output      Price `key:"output"`
}

// Rates returns the prices as the tariff takes them.
func (p Prices) Rates() abi.Prices {
	return abi.Prices{Input: abi.Nano(p.Input), Cached: abi.Nano(p.CachedInput), Output: abi.Nano(p.Output)}
}

// Sampling holds the values of parameters that a request leaves out; nil = not set.
type Sampling struct {
	Temperature     *float64 `key:"temperature"`
	TopP            *float64 `key:"top_p"`
	TopK            *int     `key:"top_k"`
	MinP            *float64 `key:"min_p"`
	PresencePenalty *float64 `key:"presence_penalty"`
}

// KV bounds the caches of a model. Memory is taken when it is first used, that of a GPU at once.
type KV struct {
	DType                string `key:"dtype"`
	PageTokens           int    `key:"page_tokens"`
	MemoryBytes          Size   `key:"memory_bytes"`
	StateDType           string `key:"state_dtype"`
	StateMemoryBytes     Size   `key:"state_memory_bytes"`
	HostStateMemoryBytes Size   `key:"host_state_memory_bytes"`
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
	StepTokensMax int `key:"step_tokens_max"`
	// SequencesMax leaves room for 64 rows of prompts beside a token of each sequence.
	SequencesMax  int           `key:"sequences_max"`
	GapMax        time.Duration `key:"gap_max"`
	GapStretchMax int           `key:"gap_stretch_max"`
	ChunkTokens   int           `key:"chunk_tokens"`
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
			HeaderTimeout: 10 * time.Second, BodyTimeout: time.Minute, IdleTimeout: 3 * time.Minute,
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
