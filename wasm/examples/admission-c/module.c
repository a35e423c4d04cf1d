/* An admission policy: when the node is busy, cheap requests go first, and
 * accounts that spend their own limit fast are asked to come back. The operator's
 * configuration says from how many of the node's requests on it is busy:
 *
 *     {"busy_requests": 48}
 */
#define CN_ADMISSION
#define CN_CONFIGURE
#include "corenode.h"

static int64_t busy;

static int cn_configure(cn_text config)
{
	cn_json j = { config, 0, 0 };
	cn_text name;
	busy = 48;
	cn_json_open(&j, '{');
	while (cn_json_member(&j, &name)) {
		cn_text value = cn_json_value(&j);
		if (!cn_same(name, CN_LITERAL("busy_requests")))
			return cn_refuse(name, CN_LITERAL("no such key; the only one is busy_requests"));
		if (!cn_json_int(value, &busy) || busy < 0)
			return cn_refuse(name, CN_LITERAL("want a whole number of requests, zero or more"));
	}
	return cn_json_end(&j) ? CN_OK : cn_refuse(CN_LITERAL(""), CN_LITERAL("want a JSON object"));
}

static int cn_decide(const cn_admission_input *in, cn_decision *out)
{
	if (in->node_requests < busy)
		return CN_OK; /* out says CN_ALLOW until it is told otherwise */
	if (in->tokens_per_minute > 0 && in->tokens_remaining < in->tokens_per_minute / 4) {
		out->verdict = CN_DENY;
		out->kind = CN_RATE_LIMITED;
		out->retry_after_ms = 15000;
		out->msg = CN_LITERAL("the node is busy and this account has used most of its tokens of this minute");
		return CN_OK;
	}
	int64_t thousands = (in->prompt_tokens + in->output_max) / 1000;
	out->verdict = CN_QUEUE;
	out->priority = (int8_t)-(thousands < 100 ? thousands : 100);
	return CN_OK;
}
