/* A billing module: the listed prices, and a fee for every request that
 * produced something. The operator's configuration says how much:
 *
 *     {"fee_nano": 2000000}
 *
 * Above 200,000 tokens of context the prices are twice the listed ones, as in
 * the built-in tariff. The prices in an input are those of the listing.
 *
 * Money is whole nano-dollars, 1e-9 US dollar, and every step is checked: what
 * does not fit declines, and the node's built-in tariff charges instead.
 */
#define CN_BILLING
#define CN_CONFIGURE
#include "corenode.h"

enum { LONG_CONTEXT = 200000 }; /* the largest context, in tokens, at the listed prices */

static int64_t fee;

static int cn_configure(cn_text config)
{
	cn_json j = { config, 0, 0 };
	cn_text name;
	fee = 0;
	cn_json_open(&j, '{');
	while (cn_json_member(&j, &name)) {
		cn_text value = cn_json_value(&j);
		if (!cn_same(name, CN_LITERAL("fee_nano")))
			return cn_refuse(name, CN_LITERAL("no such key; the only one is fee_nano"));
		if (!cn_json_int(value, &fee) || fee < 0)
			return cn_refuse(name, CN_LITERAL("want a whole number of nano-dollars, zero or more"));
	}
	return cn_json_end(&j) ? CN_OK : cn_refuse(CN_LITERAL(""), CN_LITERAL("want a JSON object"));
}

/* rate is a price in a tier: twice the listed one in the second. */
static int rate(int64_t listed, int tier, int64_t *price)
{
	*price = listed;
	return tier == 1 || !__builtin_add_overflow(listed, listed, price);
}

/* charge rates tokens; 0 if a number is negative or does not fit. A quote is a
 * charge of the most that can be used. */
static int charge(const cn_prices *p, const cn_usage *u, cn_charge_output *out)
{
	int64_t input, context, input_price, cached_price, output_price;
	if (u->uncached < 0 || u->cache_write < 0 || u->cache_read < 0 ||
	    __builtin_add_overflow(u->uncached, u->cache_write, &input) ||
	    __builtin_add_overflow(input, u->cache_read, &context))
		return 0;
	out->tier = context > LONG_CONTEXT ? 2 : 1;
	return rate(p->input, out->tier, &input_price) &&
	       rate(p->cached, out->tier, &cached_price) &&
	       rate(p->output, out->tier, &output_price) &&
	       cn_add_line(out, CN_LITERAL("input"), input, input_price) &&
	       cn_add_line(out, CN_LITERAL("cached_input"), u->cache_read, cached_price) &&
	       cn_add_line(out, CN_LITERAL("output"), u->output, output_price) &&
	       cn_add_line(out, CN_LITERAL("request"), u->output > 0, fee);
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
	if (!charge(&p, &u, &most))
		return CN_DECLINE;
	u.output = in->output_max > 0;
	if (!charge(&in->prices, &u, &least))
		return CN_DECLINE;
	out->upper = most.total;
	out->minimum = least.total;
	return CN_OK;
}

static int cn_charge(const cn_charge_input *in, cn_charge_output *out)
{
	return charge(&in->prices, &in->usage, out) ? CN_OK : CN_DECLINE;
}
