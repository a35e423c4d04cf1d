/* A filter: one word of the operator's configuration never reaches a client, however
 * the model's answer is cut into pieces.
 *
 *     {"word": "Zebulon"}
 *
 * What may be the beginning of the word is held back until the next piece shows whether it is.
 */
#define CN_FILTER
#define CN_CONFIGURE
#include "corenode.h"

enum { WORD_MAX = 64 }; /* what is held back of it fits the state */

static char word[WORD_MAX];
static uint32_t length;

static int cn_configure(cn_text config)
{
	cn_json j = { config, 0, 0 };
	cn_text name;
	length = 0;
	cn_json_open(&j, '{');
	while (cn_json_member(&j, &name)) {
		cn_text value = cn_json_value(&j);
		if (!cn_same(name, CN_LITERAL("word")))
			return cn_refuse(name, CN_LITERAL("no such key; the only one is word"));
		if (value.n < 2 || value.p[0] != '"' || value.n - 2 > WORD_MAX)
			return cn_refuse(name, CN_LITERAL("want a text of at most 64 bytes"));
		length = value.n - 2;
		for (uint32_t i = 0; i < length; i++)
			if ((word[i] = value.p[1 + i]) == '\\')
				return cn_refuse(name, CN_LITERAL("want a text without escapes"));
	}
	return cn_json_end(&j) ? CN_OK : cn_refuse(CN_LITERAL(""), CN_LITERAL("want a JSON object"));
}

/* matches is how many of the n bytes from at on the word begins with. */
static uint32_t matches(const cn_filter_input *in, const cn_filter_state *held, uint32_t at, uint32_t n)
{
	uint32_t i = 0;
	for (; i < n && i < length; i++) {
		char c = at + i < held->n ? held->p[at + i] : in->text.p[at + i - held->n];
		if (c != word[i])
			break;
	}
	return i;
}

static int cn_filter(const cn_filter_input *in, cn_filter_state *state)
{
	cn_filter_state held = *state; /* the text is held, then in->text */
	uint32_t n = held.n + in->text.n, at = 0;
	state->n = 0;
	while (at < n) {
		uint32_t same = matches(in, &held, at, n - at);
		if (length > 0 && same == length) {
			cn_puts("[redacted]");
			at += length;
		} else if (length > 0 && same == n - at && !in->last) {
			for (; at < n; at++)
				state->p[state->n++] = at < held.n ? held.p[at] : in->text.p[at - held.n];
		} else {
			cn_put_byte(at < held.n ? held.p[at] : in->text.p[at - held.n]);
			at++;
		}
	}
	return CN_OK;
}
