/* A translator for slot chat: the old text completions dialect, a prompt in and
 * text out, for clients that speak nothing else.
 *
 *     {"model": "core-1.1", "prompt": "Once", "max_tokens": 64, "stream": true}
 *
 * Thinking is left out of the text. What the dialect does not have is refused.
 */
#define CN_TRANSLATOR
#include "corenode.h"

/* fields are the body's fields and what the messages protocol calls them. The
 * node checks their values; an empty name is a field that needs no translation. */
static const struct { cn_text name, native; } fields[] = {
	{ CN_LITERAL("model"), CN_LITERAL("model") },
	{ CN_LITERAL("max_tokens"), CN_LITERAL("max_tokens") },
	{ CN_LITERAL("temperature"), CN_LITERAL("temperature") },
	{ CN_LITERAL("top_p"), CN_LITERAL("top_p") },
	{ CN_LITERAL("stop"), CN_LITERAL("stop_sequences") },
	{ CN_LITERAL("stream"), CN_LITERAL("stream") },
	{ CN_LITERAL("prompt"), CN_LITERAL("") },
	{ CN_LITERAL("user"), CN_LITERAL("") },
};

enum { FIELDS = sizeof fields / sizeof fields[0], PROMPT = 6, STOP = 4 };

static int cn_request(const cn_request_input *in)
{
	cn_json j = { in->body, 0, 0 };
	cn_text name, values[FIELDS] = { { 0, 0 } };
	cn_json_open(&j, '{');
	while (cn_json_member(&j, &name)) {
		uint32_t i = 0;
		while (i < FIELDS && !cn_same(name, fields[i].name))
			i++;
		if (i == FIELDS)
			return cn_refuse(name, CN_LITERAL("text completions have no such field"));
		values[i] = cn_json_value(&j);
	}
	if (!cn_json_end(&j))
		return cn_refuse(CN_LITERAL(""), CN_LITERAL("the body is no JSON object"));
	if (values[PROMPT].n == 0 || values[PROMPT].p[0] != '"')
		return cn_refuse(CN_LITERAL("prompt"), CN_LITERAL("prompt must be a string"));
	cn_puts("{\"messages\":[{\"role\":\"user\",\"content\":");
	cn_put(values[PROMPT]);
	cn_puts("}]");
	for (uint32_t i = 0; i < FIELDS; i++) {
		if (values[i].n == 0 || fields[i].native.n == 0)
			continue;
		int one = i == STOP && values[i].p[0] == '"'; /* one stop sequence may go without an array */
		cn_puts(",\"");
		cn_put(fields[i].native);
		cn_puts("\":");
		if (one)
			cn_put_byte('[');
		cn_put(values[i]);
		if (one)
			cn_put_byte(']');
	}
	cn_put_byte('}');
	return CN_OK;
}

/* head writes a whole answer, or one chunk of a stream, up to the text. */
static void head(const cn_facts *f)
{
	cn_puts("{\"id\":\"cmpl-");
	cn_put_escaped(f->id);
	cn_puts("\",\"object\":\"text_completion\",\"created\":");
	cn_put_decimal(f->created);
	cn_puts(",\"model\":\"");
	cn_put_escaped(f->model);
	cn_puts("\",\"choices\":[{\"text\":\"");
}

/* tail writes the rest; end is the event that closes the answer. */
static void tail(const cn_frame *end)
{
	cn_puts("\",\"index\":0,\"logprobs\":null,\"finish_reason\":");
	cn_usage u = cn_frame_usage(end, 0);
	int64_t prompt = u.uncached + u.cache_read + u.cache_write;
	cn_put(end->mark == CN_STOP_MAX_TOKENS ? CN_LITERAL("\"length\"") : CN_LITERAL("\"stop\""));
	cn_puts("}],\"usage\":{\"prompt_tokens\":");
	cn_put_decimal(prompt);
	cn_puts(",\"completion_tokens\":");
	cn_put_decimal(u.output);
	cn_puts(",\"total_tokens\":");
	cn_put_decimal(prompt + u.output);
	cn_puts("}}");
}

/* cn_events keeps the head of a chunk as its state: it is written field by
 * field once and copied from then on. Where it does not fit, it is written for
 * each group. */
static int cn_events(const cn_events_input *in, cn_state *next)
{
	cn_text events = in->events, start = { next->p, next->n };
	cn_frame f;
	while (cn_next(&events, &f)) {
		int text = f.kind == CN_DELTA && f.mark == CN_TEXT;
		if (!text && f.kind != CN_END)
			continue;
		if (start.n > 0) {
			cn_put(start);
		} else {
			uint32_t from = cn_out_len;
			cn_puts("data: ");
			head(&in->facts);
			uint32_t n = cn_out_len - from;
			if (n <= CN_STATE_MAX) {
				__builtin_memcpy(next->p, cn_out + from, n);
				next->n = start.n = n;
			}
		}
		if (text) {
			cn_put(f.text);
			cn_puts("\",\"index\":0,\"logprobs\":null,\"finish_reason\":null}]}\n\n");
		} else {
			tail(&f);
			cn_puts("\n\ndata: [DONE]\n\n");
		}
	}
	return CN_OK;
}

static int cn_response(const cn_response_input *in)
{
	cn_text events = in->events;
	cn_frame f, end = { CN_END, CN_STOP_NONE, 0, { 0, 0 } };
	head(&in->facts);
	while (cn_next(&events, &f)) {
		if (f.kind == CN_DELTA && f.mark == CN_TEXT)
			cn_put(f.text);
		if (f.kind == CN_END)
			end = f;
	}
	tail(&end);
	return CN_OK;
}

static cn_text error_type(uint32_t kind)
{
	switch (kind) {
	case CN_UNAUTHENTICATED: return CN_LITERAL("authentication_error");
	case CN_INSUFFICIENT_BALANCE: return CN_LITERAL("insufficient_quota");
	case CN_RATE_LIMITED: return CN_LITERAL("rate_limit_error");
	case CN_INTERNAL: case CN_OVERLOADED: case CN_TIMEOUT: return CN_LITERAL("server_error");
	}
	return CN_LITERAL("invalid_request_error");
}

static int cn_error(const cn_error_input *in)
{
	if (in->facts.stream)
		cn_puts("data: ");
	cn_puts("{\"error\":{\"message\":\"");
	cn_put_escaped(in->msg);
	cn_puts("\",\"type\":\"");
	cn_put(error_type(in->kind));
	if (in->param.n > 0) {
		cn_puts("\",\"param\":\"");
		cn_put_escaped(in->param);
		cn_puts("\",\"code\":null}}");
	} else {
		cn_puts("\",\"param\":null,\"code\":null}}");
	}
	if (in->facts.stream)
		cn_puts("\n\n");
	return CN_OK;
}
