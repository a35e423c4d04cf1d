/* An admission policy with counters: each account has so many requests a day and so many
 * tokens a month, which the node counts. The operator's configuration says how many:
 *
 *     {"requests": 1000, "tokens": 5000000}
 *
 * A request reserves all the tokens that it may use; those that it does not use go back, as
 * the counter is named tokens. One that does not get them is refused.
 */
#define CN_ADMISSION
#define CN_CONFIGURE
#include "corenode.h"

enum { REQUESTS, TOKENS };
enum { DAY = 24 * 60 * 60 }; /* seconds */

static int64_t limits[2];

static int cn_configure(cn_text config)
{
	cn_json j = { config, 0, 0 };
	cn_text name;
	limits[REQUESTS] = 1000;
	limits[TOKENS] = 5000000;
	cn_json_open(&j, '{');
	while (cn_json_member(&j, &name)) {
		cn_text value = cn_json_value(&j);
		int64_t *limit = cn_same(name, CN_LITERAL("requests")) ? &limits[REQUESTS] :
		                 cn_same(name, CN_LITERAL("tokens")) ? &limits[TOKENS] : 0;
		if (!limit)
			return cn_refuse(name, CN_LITERAL("no such key, want requests or tokens"));
		if (!cn_json_int(value, limit) || *limit < 0 || *limit > 1000000000000000)
			return cn_refuse(name, CN_LITERAL("want a whole number, 0 to 10^15"));
	}
	return cn_json_end(&j) ? CN_OK : cn_refuse(CN_LITERAL(""), CN_LITERAL("want a JSON object"));
}

/* One denial is for both counters, of which the node knows what is left: whoever is
 * refused is told to wait until the day ends. A month ends with one, and nobody can be
 * told to wait for longer. */
static int cn_decide(const cn_admission_input *in, cn_decision *out)
{
	out->verdict = CN_RESERVE;
	out->kind = CN_RATE_LIMITED;
	out->retry_after_ms = (uint32_t)(DAY - in->at % DAY) * 1000;
	out->msg = CN_LITERAL("this account has used its quota of requests for today or of tokens for this month, in UTC");
	out->count = 2;
	out->takes[REQUESTS] = (cn_counter){ limits[REQUESTS], 1 };
	out->takes[TOKENS].limit = limits[TOKENS];
	return __builtin_add_overflow(in->prompt_tokens, in->output_max, &out->takes[TOKENS].most) ? CN_DECLINE : CN_OK;
}
