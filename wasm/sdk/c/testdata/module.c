/* A module of every kind that writes what it read, for the tests of corenode.h. */
#define CN_ROUTER
#define CN_BILLING
#define CN_ADMISSION
#define CN_REWRITE
#define CN_FILTER
#define CN_CONFIGURE
#include "corenode.h"
#include "dump.h"

/* composed is a text that is made in the output. */
static cn_text composed(cn_text before, cn_text s)
{
	uint32_t from = cn_out_len;
	cn_put(before);
	cn_put(s);
	return (cn_text){ cn_out + from, cn_out_len - from };
}

static int cn_configure(cn_text config)
{
	cn_json j = { config, 0, 0 };
	cn_text name;
	cn_json_open(&j, '{');
	while (cn_json_member(&j, &name)) {
		cn_text value = cn_json_value(&j);
		if (!cn_same(name, CN_LITERAL("composed")))
			continue;
		cn_text param = composed(CN_LITERAL("the field "), value);
		return cn_refuse(param, composed(CN_LITERAL("there is no "), value));
	}
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
	if (in->route.index) {
		dump_request_input(in);
		return CN_OK;
	}
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
			if (cn_same(name, CN_LITERAL("text")))
				cn_put_unescaped((cn_text){ value.p + 1, value.n - 2 });
			else if (!cn_same(name, CN_LITERAL("int")))
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
	cn_put_escaped(in->facts.model);
	cn_put_byte('|');
	bar(in->kept);
	while (cn_next(&events, &f)) {
		number(f.kind);
		number(f.mark);
		number(f.index);
		cn_put_byte('[');
		if (f.kind == CN_START || f.kind == CN_END) {
			usage(&f);
		} else if (f.kind == CN_ELAPSED) {
			cn_elapsed e = cn_frame_elapsed(&f);
			dump_elapsed(&e);
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
	dump_error_input(in);
	return CN_OK;
}

static int cn_models(const cn_models_input *in)
{
	cn_text model = cn_named(in->route.params, CN_LITERAL("refuse"));
	if (model.p)
		return cn_refuse_model(CN_LITERAL("model"), model);
	model = cn_named(in->route.params, CN_LITERAL("composed"));
	if (model.p) {
		cn_text param = composed(CN_LITERAL("the field "), model);
		return cn_refuse_model(param, composed(CN_LITERAL("there is no "), model));
	}
	dump_models_input(in);
	return CN_OK;
}

static int cn_count_tokens(const cn_count_input *in)
{
	dump_count_input(in);
	return CN_OK;
}

/* logged takes what was written into the log. */
static void logged(void)
{
	cn_log(CN_INFO, (cn_text){ cn_out + CN_HEADER, cn_out_len - CN_HEADER });
	cn_out_len = CN_HEADER;
}

/* failing is what an operation returns, by a name of its input. */
static int failing(cn_text name, uint32_t *count, uint32_t most)
{
	if (cn_same(name, CN_LITERAL("too many")))
		*count = most + 1;
	if (cn_same(name, CN_LITERAL("unknown")))
		return 9;
	if (cn_same(name, CN_LITERAL("refuse")))
		return cn_refuse(CN_LITERAL("field"), name);
	return cn_same(name, CN_LITERAL("decline")) ? CN_DECLINE : CN_OK;
}

static int cn_quote(const cn_quote_input *in, cn_quote_output *out)
{
	dump_quote_input(in);
	logged();
	out->upper = 123456;
	out->minimum = -11;
	if (in->at == 7) { /* as a module with counters */
		out->covered_upper = 12;
		out->covered_minimum = 13;
		out->count = 2;
		out->takes[0].limit = 14;
		out->takes[0].most = 15;
		out->takes[1].most = -16;
	}
	return failing(in->account, &out->count, CN_COUNTERS_MAX);
}

static int cn_charge(const cn_charge_input *in, cn_charge_output *out)
{
	dump_charge_input(in);
	logged();
	if (!cn_add_line(out, CN_LITERAL("0123456789abcdefghi"), 5, 3) || cn_add_line(out, CN_LITERAL(""), INT64_MAX, 2) ||
	    cn_add_line(out, CN_LITERAL(""), -1, 1) || cn_add_line(out, CN_LITERAL(""), INT64_MAX, 1) || out->total != 15)
		return CN_DECLINE;
	out->total = -1; /* as after a rebate */
	if (!cn_add_line(out, CN_LITERAL("all"), INT64_MAX, 1) || out->total != INT64_MAX - 1)
		return CN_DECLINE;
	out->count = 1;
	out->total = 123456789;
	out->tier = 11;
	for (uint32_t i = 0; i < in->count; i++)
		out->taken[i] = in->held[i] - 1;
	if (cn_same(in->model, CN_LITERAL("taken")))
		return failing(in->account, &out->taken_count, CN_COUNTERS_MAX);
	return failing(in->account, &out->count, CN_LINES_MAX);
}

static int cn_decide(const cn_admission_input *in, cn_decision *out)
{
	dump_admission_input(in);
	logged();
	out->verdict = in->stream ? CN_DENY : CN_RESERVE;
	out->count = 1;
	out->takes[0] = (cn_counter){ 7, -8 };
	out->priority = -6;
	out->kind = CN_UNSUPPORTED_ENCODING;
	out->retry_after_ms = 12345789;
	out->msg = in->protocol;
	if (cn_same(in->account, CN_LITERAL("composed")))
		out->msg = composed(CN_LITERAL("there is no "), in->key);
	return failing(in->account, &out->count, CN_COUNTERS_MAX);
}

static int cn_rewrite(const cn_rewrite_input *in)
{
	if (cn_same(in->account, CN_LITERAL("composed"))) {
		cn_text param = composed(CN_LITERAL("the field "), in->key);
		cn_text msg = composed(CN_LITERAL("there is no "), in->key);
		cn_out_len = CN_HEADER; /* they lie behind the output */
		return cn_refuse(param, msg);
	}
	dump_rewrite_input(in);
	return CN_OK;
}

static int cn_filter(const cn_filter_input *in, cn_filter_state *state)
{
	dump_filter_input(in);
	state->n = in->text.n > CN_FILTER_STATE_MAX ? CN_FILTER_STATE_MAX : in->text.n;
	__builtin_memcpy(state->p, in->text.p, state->n);
	return failing(in->facts.model, &state->n, CN_FILTER_STATE_MAX);
}
