/* A module of every kind that writes what it read, for the tests of corenode.h. */
#define CN_TRANSLATOR
#define CN_BILLING
#define CN_ADMISSION
#define CN_CONFIGURE
#include "corenode.h"

static int cn_configure(cn_text config)
{
	cn_log(CN_INFO, config);
	cn_count(3, -7);
	return CN_OK;
}

static void bar(cn_text s)
{
	cn_put(s);
	cn_put_byte('|');
}

static void number(int64_t n)
{
	cn_put_decimal(n);
	cn_put_byte(' ');
}

static int cn_request(const cn_request_input *in)
{
	cn_json j = { in->body, 0, 0 };
	cn_text name;
	int64_t n;
	cn_keep(in->body);
	cn_json_open(&j, '{');
	while (cn_json_member(&j, &name)) {
		cn_put(name);
		if (cn_same(name, CN_LITERAL("list"))) {
			cn_put_byte(':');
			cn_json_open(&j, '[');
			while (cn_json_element(&j)) {
				cn_put(cn_json_value(&j));
				cn_put_byte(',');
			}
		} else {
			cn_text value = cn_json_value(&j);
			cn_put_byte('=');
			if (!cn_same(name, CN_LITERAL("int")))
				cn_put(value);
			else if (cn_json_int(value, &n))
				cn_put_decimal(n);
			else
				return cn_refuse(name, CN_LITERAL("bad"));
		}
		cn_put_byte(';');
	}
	return cn_json_end(&j) ? CN_OK : cn_refuse(CN_LITERAL(""), CN_LITERAL("bad"));
}

static int cn_events(const cn_events_input *in, cn_state *next)
{
	cn_text events = in->events;
	cn_frame f;
	cn_put((cn_text){ next->p, next->n });
	cn_put_byte('|');
	bar(in->kept);
	bar(in->history);
	while (cn_next(&events, &f)) {
		bar(f.text);
		if (f.text.n <= CN_STATE_MAX) {
			next->n = f.text.n;
			__builtin_memcpy(next->p, f.text.p, f.text.n);
		}
	}
	return CN_OK;
}

static void facts(const cn_facts *f)
{
	cn_put(f->id);
	cn_put_byte(' ');
	cn_put_escaped(f->model);
	cn_put_byte(' ');
	number(f->created);
	cn_put_decimal(f->stream);
	cn_put_byte('|');
}

static void usage(const cn_frame *f)
{
	cn_text stop;
	cn_usage u = cn_frame_usage(f, &stop);
	number(u.uncached);
	number(u.cache_read);
	number(u.cache_write);
	number(u.output);
	number(u.reasoning);
	cn_put(stop);
}

static int cn_response(const cn_response_input *in)
{
	cn_text events = in->events, id, name;
	cn_frame f;
	facts(&in->facts);
	bar(in->kept);
	while (cn_next(&events, &f)) {
		number(f.kind);
		number(f.mark);
		number(f.index);
		cn_put_byte('[');
		if (f.kind == CN_START || f.kind == CN_END) {
			usage(&f);
		} else if (f.kind == CN_BLOCK_START) {
			cn_frame_tool(&f, &id, &name);
			cn_put(id);
			cn_put_byte(' ');
			cn_put(name);
		} else {
			cn_put(f.text);
		}
		cn_put_byte(']');
	}
	return CN_OK;
}

static int cn_error(const cn_error_input *in)
{
	facts(&in->facts);
	bar(in->state);
	bar(in->kept);
	bar(in->history);
	number(in->status);
	number(in->kind);
	number(in->reason);
	number(in->prompt);
	number(in->value);
	number(in->bound);
	bar(in->param);
	cn_put(in->msg);
	return CN_OK;
}

/* digits adds a digit of every field, so that one that is misread shows. */
static int64_t digits(int64_t all, int64_t digit) { return 10 * all + digit; }

static int cn_quote(const cn_quote_input *in, cn_quote_output *out)
{
	int64_t n = digits(digits(digits(0, in->prices.input), in->prices.cached), in->prices.output);
	out->upper = digits(digits(digits(n, in->input), in->output_max), in->at);
	out->minimum = 10 * cn_same(in->model, CN_LITERAL("m")) + cn_same(in->account, CN_LITERAL("a"));
	return CN_OK;
}

static int cn_charge(const cn_charge_input *in, cn_charge_output *out)
{
	const cn_usage *u = &in->usage;
	int64_t n = digits(digits(digits(0, in->prices.input), in->prices.cached), in->prices.output);
	n = digits(digits(digits(digits(digits(n, u->uncached), u->cache_read), u->cache_write), u->output), u->reasoning);
	if (!cn_add_line(out, CN_LITERAL("0123456789abcdefghi"), 5, 3) || cn_add_line(out, CN_LITERAL(""), INT64_MAX, 2) ||
	    cn_add_line(out, CN_LITERAL(""), -1, 1) || cn_add_line(out, CN_LITERAL(""), INT64_MAX, 1))
		return CN_DECLINE;
	out->total = digits(n, in->at);
	out->tier = (uint32_t)(10 * cn_same(in->model, CN_LITERAL("m")) + cn_same(in->account, CN_LITERAL("a")));
	return CN_OK;
}

static int cn_decide(const cn_admission_input *in, cn_decision *out)
{
	int64_t n = digits(digits(digits(digits(0, in->at), in->prompt_tokens), in->output_max), in->account_requests);
	n = digits(digits(digits(n, in->account_requests_max), in->tokens_per_minute), in->available);
	out->verdict = CN_DENY;
	out->priority = (int8_t)in->tokens_remaining;
	out->retry_after_ms = (uint32_t)digits(n, in->node_requests);
	out->kind = (uint16_t)(in->stream + in->unlimited + cn_same(in->account, CN_LITERAL("a")) + cn_same(in->key, CN_LITERAL("k")) +
	                       cn_same(in->model, CN_LITERAL("m")) + (in->node_requests_max == 10) - 1 +
	                       (in->model_queued == 11) + (in->model_queued_max == 12) + (in->model_wait_ms == 13) + (in->model_pages_used == 14) +
	                       (in->model_pages == 15));
	out->msg = in->protocol;
	return CN_OK;
}
