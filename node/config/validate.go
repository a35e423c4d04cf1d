package config

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"corenode/actors/account"
	"corenode/engine/upstream"
	"corenode/engine/upstream/wire"
	"corenode/extensions"
	"corenode/node/operators"
)

// checks collects what is wrong, by key. A text that may be a secret, or have one, is not repeated: the log, the console
// and the doctor show what is wrong to whoever may look.
type checks struct{ problems []Problem }

func (c *checks) refuse(key, format string, args ...any) {
	c.problems = append(c.problems, Problem{Key: key, Text: fmt.Sprintf(format, args...)})
}

// between refuses a number outside low to high.
func between[N ~int | ~int64](c *checks, key string, n, low, high N) {
	if n < low || n > high {
		c.refuse(key, "is %d, want %d to %d", n, low, high)
	}
}

// validate returns every problem of a configuration, in the order of the file.
func (c *Config) validate() []Problem {
	var all checks
	if c.DataDir == "" {
		all.refuse("data_dir", "is empty, want a folder")
	}
	checkAddress(&all, "listen", c.Listen)
	c.Server.validate(&all)
	c.Admin.validate(&all)
	if levels := []string{"debug", "info", "warn", "error"}; !slices.Contains(levels, c.Log.Level) {
		all.refuse("log.level", "is %q, want one of %v", c.Log.Level, levels)
	}
	c.Limits.validate(&all)
	c.Modules.validate(&all)
	c.Store.validate(&all)
	c.Cluster.validate(&all, c)
	between(&all, "ledger.spill_bytes", c.Ledger.SpillBytes, 1<<20, 64<<30)
	if c.Cache.Keep != 0 {
		between(&all, "cache.keep", c.Cache.Keep, 1<<20, 16<<40)
	}
	if len(c.Models) == 0 {
		all.refuse("models", "is empty, want at least one model")
	}
	for _, id := range slices.Sorted(maps.Keys(c.Models)) {
		c.Models[id].validate(&all, id)
	}
	return all.problems
}

// hostOf returns the host of a valid host:port.
func hostOf(address string) (host string, ok bool) {
	host, port, _ := net.SplitHostPort(address) // what is none has no port
	_, err := strconv.ParseUint(port, 10, 16)
	return host, err == nil
}

// checkAddress returns the host of a valid host:port.
func checkAddress(c *checks, key, address string) (host string, ok bool) {
	if host, ok = hostOf(address); !ok {
		c.refuse(key, "is %q, want host:port, such as 127.0.0.1:8080", address)
	}
	return host, ok
}

// origin is what browsers send: scheme, host and perhaps a port, in lower case.
var origin = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^\sA-Z/?#@,*]+$`)

// checkTLS refuses one file of a pair without the other.
func checkTLS(c *checks, under, certificate, key string) {
	if certificate != "" && key == "" {
		c.refuse(under+".tls_key", "is empty, want the file of the key of %s.tls_certificate", under)
	}
	if certificate == "" && key != "" {
		c.refuse(under+".tls_certificate", "is empty, want the file of the certificate of %s.tls_key", under)
	}
}

func (s Server) validate(c *checks) {
	checkTLS(c, "server", s.TLSCertificate, s.TLSKey)
	s.validatePeerKeys(c)
	for i, text := range s.CORSOrigins {
		key := fmt.Sprintf("server.cors_origins.%d", i)
		scheme, host, _ := strings.Cut(text, "://")
		switch {
		case text == "*" && len(s.CORSOrigins) == 1:
		case text == "*":
			c.refuse(key, `is "*", which is every origin: want it alone, or only the others`)
		case text == "null":
			c.refuse(key, `is "null", which every file and every sandboxed frame sends: want the origin of a page, or "*"`)
		case !origin.MatchString(text):
			c.refuse(key, "is %q, want an origin as browsers send it, such as https://chat.example.com "+
				"or http://localhost:3000: lower case, no path", text)
		case scheme == "http" && strings.HasSuffix(host, ":80"), scheme == "https" && strings.HasSuffix(host, ":443"):
			c.refuse(key, "is %q, want it without the scheme's own port, which browsers leave out", text)
		}
	}
}

// keyID is what the ids of keys are like.
var keyID = regexp.MustCompile(`^key_[0-9A-Za-z_-]+$`)

func (s Server) validatePeerKeys(c *checks) {
	for i, id := range s.PeerKeys {
		if !keyID.MatchString(id) { // it may be the secret
			c.refuse(fmt.Sprintf("server.peer_keys.%d", i), "is no id of a key, want such as key_0123456789abcdef0123, "+
				"as key list prints it: the secret of a key stays with the node that sends it")
		}
	}
}

func (a Admin) validate(c *checks) {
	host, ok := checkAddress(c, "admin.listen", a.Listen)
	local := host == "localhost" || net.ParseIP(host).IsLoopback()
	if ok && !local && !a.AllowRemote {
		how := ", unencrypted"
		if a.TLSCertificate != "" {
			how = ""
		}
		c.refuse("admin.listen", "is %q, which other machines can reach%s: "+
			"want a loopback address, or admin.allow_remote: true", a.Listen, how)
	}
	checkTLS(c, "admin", a.TLSCertificate, a.TLSKey)
	if _, err := operators.ParseAll(a.Operators); err != nil {
		c.refuse("admin.operators", "has mistakes: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

func (s Store) validate(c *checks) {
	if s.URL == "" {
		if s.PasswordFile != "" {
			c.refuse("store.password_file", "is set, but store.url is not")
		}
		return
	}
	for _, problem := range URLProblems(s.URL, "store.password_file") {
		c.refuse("store.url", "%s", problem)
	}
}

// URLProblems says why a text may not be the URL of a database, whose password is in the file that passwordFile
// names. What the text is is not said: it may have a password.
func URLProblems(text, passwordFile string) (all []string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return []string{"is no URL of PostgreSQL, want postgres://user@host/database"}
	}
	// What does not parse is not used, but it would be shown.
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		all = append(all, "has parameters that are not name=value with & between them")
	}
	if _, has := u.User.Password(); has || query.Has("password") || query.Has("sslpassword") {
		all = append(all, "has a password, which others could read: want it in "+passwordFile)
	}
	return all
}

func (l Cluster) validate(c *checks, all *Config) {
	if len(l.ShareModels) == 0 {
		if l.Address != "" {
			c.refuse("cluster.address", "is set, but no model is shared")
		}
		return
	}
	if all.Store.URL == "" {
		c.refuse(shareModelsKey, "is set, but store.url is not: nodes know each other by their database")
	}
	for _, id := range l.ShareModels {
		m, known := all.Models[id]
		switch {
		case id == allModels && len(l.ShareModels) == 1:
		case !known:
			c.refuse(shareModelsKey, "has %q, which is no model of this node", id)
		case m.Engine == EngineUpstream:
			c.refuse(shareModelsKey, "has %q, which servers elsewhere answer", id)
		}
	}
	host, ok := checkAddress(c, "cluster.listen", l.Listen)
	if l.Address != "" {
		checkAddress(c, "cluster.address", l.Address)
	} else if ok && (host == "" || net.ParseIP(host).IsUnspecified()) {
		c.refuse("cluster.listen", "is %q, which is no address that other nodes can reach: name one in cluster.address", l.Listen)
	}
}

func (l Limits) validate(c *checks) {
	between(c, "limits.connections_max", l.ConnectionsMax, 1, 1_000_000)
	between(c, "limits.header_bytes_max", l.HeaderBytesMax, 4<<10, 1<<20)
	between(c, "limits.body_bytes_max", l.BodyBytesMax, 1<<10, 1<<30)
	between(c, "limits.body_bytes_total", l.BodyBytesTotal, l.BodyBytesMax, 1<<40)
	between(c, "limits.prepare_concurrency", l.PrepareConcurrency, 1, 4096)
	between(c, "limits.queue_requests_max", l.QueueRequestsMax, 1, 1_000_000)
	between(c, "limits.queue_tokens_max", l.QueueTokensMax, 1, 1<<40)
	between(c, "limits.sessions_per_account", l.SessionsPerAccount, 1, 1_000_000)
	between(c, "limits.pinned_bytes_per_account", l.PinnedBytesPerAccount, 0, 1<<50)
	for _, d := range []struct {
		key string
		d   time.Duration
	}{
		{"header_timeout", l.HeaderTimeout}, {"body_timeout", l.BodyTimeout}, {"idle_timeout", l.IdleTimeout},
		{"queue_timeout", l.QueueTimeout}, {"nonstreaming_timeout", l.NonstreamingTimeout},
		{"slow_reader_pause", l.SlowReaderPause}, {"slow_reader_cancel", l.SlowReaderCancel},
		{"drain_timeout", l.DrainTimeout}, {"keepalive", l.Keepalive}, {"session_idle", l.SessionIdle},
	} {
		if d.d < time.Millisecond || d.d > 24*time.Hour {
			c.refuse("limits."+d.key, "is %v, want 1ms to 24h", d.d)
		}
	}
	if l.DrainDelay < 0 || l.DrainDelay > 24*time.Hour {
		c.refuse("limits.drain_delay", "is %v, want 0s to 24h", l.DrainDelay)
	}
	if l.SlowReaderCancel < l.SlowReaderPause {
		c.refuse("limits.slow_reader_cancel", "is %v, want at least limits.slow_reader_pause (%v)", l.SlowReaderCancel, l.SlowReaderPause)
	}
}

func (m Modules) validate(c *checks) {
	for i, text := range m.TrustedKeys {
		if key, err := base64.StdEncoding.DecodeString(text); err != nil || len(key) != ed25519.PublicKeySize {
			c.refuse(fmt.Sprintf("modules.trusted_keys.%d", i),
				"is no public key, want %d bytes in base64, as corenode module keygen prints them", ed25519.PublicKeySize)
		}
	}
	for i, text := range m.Denied {
		if _, err := extensions.ParseDenial(text); err != nil {
			c.refuse(fmt.Sprintf("modules.denied.%d", i), "is %q, want %v", text, err)
		}
	}
	between(c, "modules.instances_max", m.InstancesMax, 0, 1024)
	within := func(key string, v, low, high float64) {
		if !(v >= low && v <= high) { // also refuses NaN
			c.refuse(key, "is %v, want %v to %v", v, low, high)
		}
	}
	within("modules.cpu_share", m.CPUShare, 0.01, 1)
	within("modules.canary_factor", m.CanaryFactor, 1.1, 1e6)
	between(c, "modules.canary_calls_min", m.CanaryCallsMin, 10, 100_000)
}

func (m Model) validate(c *checks, id string) {
	key := "models." + id + "."
	if err := account.CheckModel(id); err != nil {
		c.refuse("models."+id, "is not a model id: %v", err)
	}
	switch m.Engine {
	case EngineCPU, EngineInstant:
	case EngineUpstream:
		m.Upstream.validate(c, key+"upstream.")
		between(c, key+"context_length", m.ContextLength, 1, 1<<24) // nobody else says it
		if m.Path != "" {
			c.refuse(key+"path", "is set, but the engine is upstream: want none") // it may be the URL of a server
		}
	case EngineCUDA:
		if !hasCUDA {
			c.refuse(key+"engine", `is %q, which this binary does not have: want "cpu", or corenode-cuda`, m.Engine)
		}
	default:
		c.refuse(key+"engine", "is %q, want cpu, cuda, upstream or instant", m.Engine)
	}
	if m.KV.HostStateMemoryBytes > 0 && m.Engine != EngineCUDA {
		c.refuse(key+"kv.host_state_memory_bytes", "is %d, but the engine is %s: it is for a GPU", m.KV.HostStateMemoryBytes, m.Engine)
	}
	if m.KV.StateDType == "bf16" && m.Engine != EngineCUDA {
		c.refuse(key+"kv.state_dtype", "is bf16, but the engine is %s: it is for a GPU", m.Engine)
	}
	between(c, key+"context_length", m.ContextLength, 0, 1<<24)
	between(c, key+"output_max", m.OutputMax, 0, 1<<24)
	between(c, key+"thinking_max", m.ThinkingMax, 0, 1<<24)
	if m.ContextLength > 0 && m.OutputMax > m.ContextLength {
		c.refuse(key+"output_max", "is %d, want at most %scontext_length (%d)", m.OutputMax, key, m.ContextLength)
	}
	if _, err := time.Parse(time.DateOnly, m.TemplateDate); m.TemplateDate != "" && err != nil {
		c.refuse(key+"template_date", "is %q, want a day, such as 2026-01-31", m.TemplateDate)
	}
	if m.Speculation != SpeculationAuto && m.Speculation != SpeculationOff {
		c.refuse(key+"speculation", "is %q, want auto or off", m.Speculation)
	}
	between(c, key+"threads", m.Threads, 0, 1024)
	if m.StepTime < 0 || m.StepTime > time.Second {
		c.refuse(key+"step_time", "is %v, want 0s to 1s", m.StepTime)
	}
	if m.Engine != EngineInstant && m.StepTime > 0 {
		c.refuse(key+"step_time", "is set, but the engine is %q: want engine: instant", m.Engine)
	}
	if m.Engine != EngineUpstream && !reflect.DeepEqual(m.Upstream, defaultModel(id).Upstream) {
		c.refuse(key+"upstream", "is set, but the engine is %q: want engine: upstream", m.Engine)
	}
	m.Prices.validate(c, key+"prices.")
	m.Sampling.validate(c, key+"sampling.")
	m.KV.validate(c, key+"kv.")
	m.Batch.validate(c, key+"batch.")
}

func (u Upstream) validate(c *checks, key string) {
	if f, err := wire.ParseFlavor(u.Flavor); err != nil {
		c.refuse(key+"flavour", "is %q, want one of %s", u.Flavor, strings.Join(wire.Flavors(), ", "))
	} else if u.Tokenizer == "" && f.Traits().Count == "" {
		c.refuse(key+"tokenizer", "is empty, but servers of flavor %s do not count tokens: want the model's tokenizer", f)
	}
	switch {
	case len(u.URLs) > 0 && u.DNS != "":
		c.refuse(key+"dns", "is set beside %surls: want one of the two", key)
	case len(u.URLs) == 0 && u.DNS == "":
		c.refuse(key+"urls", "is empty, want the servers' base URLs, or %sdns", key)
	case u.DNS != "":
		if _, ok := hostOf(u.DNS); !ok {
			c.refuse(key+"dns", "is no host:port, want such as nodes.local:8080")
		}
	}
	seen := map[string]bool{}
	for i, text := range u.URLs {
		at := fmt.Sprintf("%surls.%d", key, i)
		if err := upstream.CheckURL(text); err != nil {
			c.refuse(at, "cannot be used: %v", err)
		} else if seen[strings.TrimRight(text, "/")] {
			c.refuse(at, "is %q, which is there twice", text)
		}
		seen[strings.TrimRight(text, "/")] = true
	}
	for i, name := range u.Sampling {
		at, optional := fmt.Sprintf("%ssampling.%d", key, i), wire.Flavor(u.Flavor).Traits().Optional
		if len(optional) == 0 {
			c.refuse(at, "is %q, but servers of flavor %s are told all sampling: want none", name, u.Flavor)
		} else if !slices.Contains(optional, name) {
			c.refuse(at, "is %q, want one of %s", name, strings.Join(optional, ", "))
		}
	}
	if u.Verify != VerifyRefuse && u.Verify != VerifyCount {
		c.refuse(key+"verify", "is %q, want refuse or count", u.Verify)
	}
	between(c, key+"connections_max", u.ConnectionsMax, 1, 65536)
	for name, d := range map[string]time.Duration{"first_token_timeout": u.FirstTokenTimeout, "stall_timeout": u.StallTimeout} {
		if d < time.Second || d > 24*time.Hour {
			c.refuse(key+name, "is %v, want 1s to 24h", d)
		}
	}
}

func (p Prices) validate(c *checks, key string) {
	for _, price := range []struct {
		key   string
		price Price
	}{{"input", p.Input}, {"cached_input", p.CachedInput}, {"output", p.Output}} {
		if price.price == priceMissing {
			c.refuse(key+price.key, `is missing, want dollars per million tokens, such as "0.24"; "0" is free`)
		}
	}
}

func (s Sampling) validate(c *checks, key string) {
	within := func(name string, v *float64, low, high float64) {
		if v != nil && !(*v >= low && *v <= high) { // also refuses NaN
			c.refuse(key+name, "is %v, want %v to %v", *v, low, high)
		}
	}
	within("temperature", s.Temperature, 0, 100)
	within("top_p", s.TopP, 1e-9, 1)
	within("min_p", s.MinP, 0, 1)
	within("presence_penalty", s.PresencePenalty, -2, 2)
	if s.TopK != nil {
		between(c, key+"top_k", *s.TopK, 0, 1<<20)
	}
}

func (k KV) validate(c *checks, key string) {
	if k.DType != "f16" && k.DType != "f32" && k.DType != "q8" {
		c.refuse(key+"dtype", "is %q, want f16, f32 or q8", k.DType)
	}
	if k.PageTokens != 16 && k.PageTokens != 32 && k.PageTokens != 64 {
		c.refuse(key+"page_tokens", "is %d, want 16, 32 or 64", k.PageTokens)
	}
	if k.MemoryBytes != 0 {
		between(c, key+"memory_bytes", k.MemoryBytes, 1<<20, 1<<45)
	}
	if k.StateDType != "f32" && k.StateDType != "bf16" {
		c.refuse(key+"state_dtype", "is %q, want f32 or bf16", k.StateDType)
	}
	between(c, key+"state_memory_bytes", k.StateMemoryBytes, 0, 1<<45)
	between(c, key+"host_state_memory_bytes", k.HostStateMemoryBytes, 0, 1<<45)
}

func (b Batch) validate(c *checks, key string) {
	between(c, key+"step_tokens_max", b.StepTokensMax, 128, 8192)
	// A piece of prefill, at least 64 tokens, must fit beside all decodes.
	if b.SequencesMax < 1 || b.SequencesMax > b.StepTokensMax-64 {
		c.refuse(key+"sequences_max", "is %d, want 1 to %sstep_tokens_max - 64 (%d)", b.SequencesMax, key, b.StepTokensMax-64)
	}
	if b.GapMax < time.Millisecond || b.GapMax > time.Hour {
		c.refuse(key+"gap_max", "is %v, want 1ms to 1h", b.GapMax)
	}
	between(c, key+"gap_stretch_max", b.GapStretchMax, 0, 1000)
	if b.ChunkTokens < 0 || b.ChunkTokens%64 != 0 || b.ChunkTokens > b.StepTokensMax {
		c.refuse(key+"chunk_tokens", "is %d, want a multiple of 64 up to %sstep_tokens_max (%d), or 0", b.ChunkTokens, key, b.StepTokensMax)
	}
}
