package trace

// SchemaURL names the version of the conventions that every name here is of. They are in
// development: another version is another set of names, and changes here only.
const SchemaURL = "https://opentelemetry.io/schemas/gen-ai/1.42.0"

// scopeName is what instrumented the spans.
const scopeName = "corenode/node/trace"

// Names of the conventions for GenAI. Those for the text of prompts and answers are not here:
// no span ever has it.
const (
	operationName     = "gen_ai.operation.name"
	providerName      = "gen_ai.provider.name"
	requestModel      = "gen_ai.request.model"
	requestMaxTokens  = "gen_ai.request.max_tokens"
	requestStream     = "gen_ai.request.stream"
	responseModel     = "gen_ai.response.model"
	finishReasons     = "gen_ai.response.finish_reasons"
	conversationID    = "gen_ai.conversation.id"
	inputTokens       = "gen_ai.usage.input_tokens"
	outputTokens      = "gen_ai.usage.output_tokens"
	cacheReadTokens   = "gen_ai.usage.cache_read.input_tokens"
	cacheCreateTokens = "gen_ai.usage.cache_creation.input_tokens"
	reasoningTokens   = "gen_ai.usage.reasoning.output_tokens"
)

// Names of the general conventions.
const (
	httpMethod      = "http.request.method"
	httpRoute       = "http.route"
	httpStatus      = "http.response.status_code"
	serverAddress   = "server.address"
	serverPort      = "server.port"
	urlFull         = "url.full"
	errorType       = "error.type"
	serviceName     = "service.name"
	serviceVersion  = "service.version"
	serviceInstance = "service.instance.id"
	resendCount     = "http.request.resend_count"
)

// Names of this program.
const (
	ourRequest = "corenode.request.id"
	ourAccount = "corenode.account.id"
	ourKey     = "corenode.key.id"
	ourCharge  = "corenode.charge_nano_usd"
	ourKept    = "corenode.trace.kept" // why: ratio, peer, error or slow
	ourTTFT    = "corenode.ttft_seconds"
	ourModule  = "corenode.module.digest"
	ourUpID    = "corenode.upstream.request.id"
)

// Names of spans and events.
const (
	firstToken    = "first token"
	upstreamSpan  = "upstream attempt"
	operationChat = "chat"
	provider      = "corenode"
)
