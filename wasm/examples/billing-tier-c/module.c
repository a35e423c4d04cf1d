/* A billing module with a counter: the first tokens of each month are free, those
 * after them have the listed prices. The operator's configuration says how many:
 *
 *     {"tokens": 1000000}
 *
 * A quote asks for all the tokens that the request may use; what it gets of them is
 * the node's to say, which counts for each account and month. Input comes before output.
 */
#define CN_BILLING
#define CN_CONFIGURE
#include "corenode.h"

static int64_t limit;

static int cn_configure(cn_text config)
{
	cn_json j = { config, 0, 0 };
	cn_text name;
	limit = 1000000;
	cn_json_open(&j, '{');
	while (cn_json_member(&j, &name)) {
		cn_text value = cn_json_value(&j);
		if (!cn_same(name, CN_LITERAL("tokens")))
			return cn_refuse(name, CN_LITERAL("no such key; the only one is tokens"));
		if (!cn_json_int(value, &limit) || limit < 0 || limit > 1000000000000000)
			return cn_refuse(name, CN_LITERAL("want a whole number of tokens, 0 to 10^15"));
	}
	return cn_json_end(&j) ? CN_OK : cn_refuse(CN_LITERAL(""), CN_LITERAL("want a JSON object"));
}

/* part adds a line for tokens, of which those that are left are free. */
static int part(cn_charge_output *out, cn_text unit, int64_t tokens, int64_t price, int64_t *left)
{
	int64_t covered = tokens < *left ? tokens : *left;
	if (tokens < 0 || covered < 0)
		return 0;
	*left -= covered;
	return cn_add_line(out, unit, tokens - covered, price);
}

/* rate charges what was used but for the first free tokens of it; 0 if a number is
 * negative or does not fit. */
static int rate(const cn_prices *p, const cn_usage *u, int64_t free, cn_charge_output *out)
{
	int64_t left = free, input;
	out->tier = 1;
	return u->uncached >= 0 && u->cache_write >= 0 && !__builtin_add_overflow(u->uncached, u->cache_write, &input) &&
	       part(out, CN_LITERAL("input"), input, p->input, &left) &&
	       part(out, CN_LITERAL("cached_input"), u->cache_read, p->cached, &left) &&
	       part(out, CN_LITERAL("output"), u->output, p->output, &left) &&
	       (free == 0 || cn_add_line(out, CN_LITERAL("free"), free, 0));
}

static int cn_quote(const cn_quote_input *in, cn_quote_output *out)
{
	static cn_charge_output most, least;
	cn_usage u = { in->input, 0, 0, in->output_max, 0 };
	cn_prices p = in->prices;
	if (p.cached > p.input)
		p.input = p.cached; /* the dearest way to read the prompt */
	__builtin_memset(&most, 0, sizeof most);
	__builtin_memset(&least, 0, sizeof least);
	if (!rate(&p, &u, 0, &most) || __builtin_add_overflow(in->input, in->output_max, &out->takes[0].most))
		return CN_DECLINE;
	u.output = in->output_max > 0;
	if (!rate(&in->prices, &u, 0, &least))
		return CN_DECLINE;
	out->upper = most.total;
	out->minimum = least.total;
	out->count = 1;
	out->takes[0].limit = limit;
	return CN_OK;
}

static int cn_charge(const cn_charge_input *in, cn_charge_output *out)
{
	const cn_usage *u = &in->usage;
	int64_t used, context;
	if (__builtin_add_overflow(u->uncached, u->cache_read, &context) ||
	    __builtin_add_overflow(context, u->cache_write, &context) || __builtin_add_overflow(context, u->output, &used))
		return CN_DECLINE;
	int64_t held = in->held[0], free = held < used ? held : used;
	out->taken_count = in->count;
	out->taken[0] = free;
	return rate(&in->prices, u, free, out) ? CN_OK : CN_DECLINE;
}
