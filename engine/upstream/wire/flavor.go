// Package wire is what a model's servers elsewhere are told and what they answer, as
// pure code: bodies of requests out of what a client sent, and typed events out of the
// bytes of a stream. It knows no connection and no clock.
//
// A server speaks one of two protocols. To one that speaks messages faithfully the
// client's own body goes out, with named splices (Splice); to every other one a chat
// completions body is made of the parsed request (Chat). A Reader takes the stream that
// comes back, of either protocol, to the events that an engine of ours would give.
package wire

import (
	"fmt"
	"slices"
	"strings"
)

// Flavor names a make of server.
type Flavor string

const (
	// VLLM is a vLLM server.
	VLLM Flavor = "vllm"
	// SGLang is an SGLang server.
	SGLang Flavor = "sglang"
	// LlamaServer is the server of llama.cpp.
	LlamaServer Flavor = "llama-server"
	// Corenode is another node of this program.
	Corenode Flavor = "corenode"
	// Messages is any server of the messages protocol.
	Messages Flavor = "messages"
	// ChatCompletions is any server of the chat completions protocol.
	ChatCompletions Flavor = "chat"
)

// Traits are what the node must know of a flavor.
type Traits struct {
	// Messages says that the server's messages endpoint loses nothing of the protocol, so
	// that the client's body goes out as it came, but for the splices.
	Messages bool
	// Extended says that it knows also what our subset has beyond the protocol: see MessagesFields.
	Extended bool
	// CacheSalt says that the body's cache_salt keeps one account's prefixes from another's.
	CacheSalt bool
	// Partition says that the header PartitionHeader does. Such a server knows PriorityHeader, too.
	Partition bool
	// ContinuousUsage asks for the usage on every chunk of a chat stream.
	ContinuousUsage bool
	// TemplateKwargs says that chat_template_kwargs reaches the model's chat template.
	TemplateKwargs bool
	// ContinueFinal says that a final assistant message begins the answer only where
	// continue_final_message asks for it.
	ContinueFinal bool
	// AnyTool says that a call can be forced, but not of which tool.
	AnyTool bool
	// SamplingExtras are fields of sampling beyond the chat protocol's that the server reads.
	SamplingExtras []string
	// Optional are fields that a server of the make may know and is not told, unless an operator says that it does.
	Optional []string
	// TopKOff is the top_k that keeps all tokens to draw from: a server that is told none has a default.
	// Empty where it is not known.
	TopKOff string
	// Pings says that pings come for as long as the server works on an answer. It holds calls
	// back until they are complete, so that nothing else may come for long.
	Pings bool
	// Health is the path that says whether the server can answer.
	Health string
	// Version is the path of a JSON object with the server's version; empty without one.
	Version string
	// Metrics is the path of its metrics in the text format of Prometheus; empty without.
	Metrics string
	// Waiting are the names of the gauge of requests that wait, by age of the server.
	Waiting []string
	// Count is the path that counts the tokens of a request; empty without one.
	Count string
}

// PartitionHeader tells another node whose cached prefixes a request may find, PriorityHeader
// its priority among those that wait, where that is not 0, and HopHeader that it comes from a
// node and must not be forwarded again.
const (
	PartitionHeader = "X-Corenode-Partition"
	PriorityHeader  = "X-Corenode-Priority"
	HopHeader       = "X-Corenode-Hop"
)

// SamplingFields are all fields of sampling beyond the chat protocol's that a server may read, by the names of
// requests.
var SamplingFields = []string{"top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos"}

// MessagesFields are the fields of requests that the messages protocol does not have, and clients of other protocols
// ask for: its servers refuse them, or ignore them without a word. Of response_format what is left is any JSON object:
// a schema has its place in the protocol.
var MessagesFields = []string{
	"response_format", "seed", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "min_tokens", "ignore_eos",
}

var traits = map[Flavor]Traits{
	VLLM: {CacheSalt: true, ContinuousUsage: true, TemplateKwargs: true, ContinueFinal: true,
		SamplingExtras: SamplingFields, TopKOff: "-1",
		Health: "/health", Version: "/version", Metrics: "/metrics",
		Waiting: []string{"vllm:num_requests_waiting"}, Count: "/v1/messages/count_tokens"},
	SGLang: {CacheSalt: true, ContinuousUsage: true, TemplateKwargs: true, ContinueFinal: true,
		SamplingExtras: SamplingFields, TopKOff: "-1",
		Health: "/health", Version: "/get_server_info", Metrics: "/metrics",
		Waiting: []string{"sglang:num_queue_reqs"}, Count: "/v1/messages/count_tokens"},
	LlamaServer: {TemplateKwargs: true, AnyTool: true,
		SamplingExtras: []string{"top_k", "min_p", "repeat_penalty", "ignore_eos"}, TopKOff: "0", Optional: SamplingFields,
		Health: "/health", Version: "/props", Metrics: "/metrics",
		Waiting: []string{"llamacpp:requests_deferred"}, Count: "/v1/messages/count_tokens"},
	Corenode: {Messages: true, Extended: true, Partition: true, Pings: true,
		Health: "/readyz", Count: "/v1/messages/count_tokens"},
	Messages: {Messages: true, Optional: MessagesFields, Health: "/v1/models", Count: "/v1/messages/count_tokens"},
	// A server of which nothing is known is asked for nothing beyond the protocol.
	ChatCompletions: {Optional: SamplingFields, Health: "/v1/models"},
}

// Flavors lists the names, for the configuration and its errors.
func Flavors() []string {
	var names []string
	for f := range traits {
		names = append(names, string(f))
	}
	slices.Sort(names)
	return names
}

// ParseFlavor finds a flavor by its name.
func ParseFlavor(name string) (Flavor, error) {
	if _, ok := traits[Flavor(name)]; !ok {
		return "", fmt.Errorf("flavor %q is not one of %s", name, strings.Join(Flavors(), ", "))
	}
	return Flavor(name), nil
}

// Traits returns what is known of servers of this make.
func (f Flavor) Traits() Traits { return traits[f] }

// TellsThinking says whether the server can be told whether to think, and how much.
func (f Flavor) TellsThinking() bool { return traits[f].Messages || traits[f].TemplateKwargs }

// samplingWith are the SamplingExtras of the flavor, and those of more that are not among them.
func (f Flavor) samplingWith(more []string) []string {
	all := slices.Clip(traits[f].SamplingExtras)
	for _, name := range more {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// protocolFields are those of the fields that Lost looks at which the protocol itself has.
func (f Flavor) protocolFields() []string {
	if traits[f].Messages {
		return []string{"top_k"}
	}
	return []string{"response_format", "seed", "presence_penalty", "frequency_penalty"}
}

// Isolates says whether the server can keep the cached prefixes of accounts apart.
func (f Flavor) Isolates() bool { return traits[f].CacheSalt || traits[f].Partition }

// Path is where requests for answers go.
func (f Flavor) Path() string {
	if traits[f].Messages {
		return "/v1/messages"
	}
	return "/v1/chat/completions"
}
