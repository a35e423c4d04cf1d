/* A rewrite module: it refuses requests about what the operator's configuration names, lets
 * a name of a model stand for another, and puts instructions before those of the client.
 *
 *     {"refuse": "project zebulon", "alias": "fast", "serves": "core-1.1-mini", "system": "Answer in English."}
 *
 * The phrase is looked for in all of messages and system, without regard to the case of a to z,
 * and however it is escaped. Each of the keys may be left out.
 */
#define CN_REWRITE
#define CN_CONFIGURE
#include "corenode.h"

enum { TEXT_MAX = 4096 };

static struct { char p[TEXT_MAX]; uint32_t n; } texts[4]; /* as in the configuration, escaped */
enum { REFUSE, ALIAS, SERVES, SYSTEM };

static int cn_configure(cn_text config)
{
	static const char *names[4] = { "refuse", "alias", "serves", "system" };
	static const uint32_t sizes[4] = { 6, 5, 6, 6 };
	cn_json j = { config, 0, 0 };
	cn_text name;
	cn_json_open(&j, '{');
	while (cn_json_member(&j, &name)) {
		cn_text value = cn_json_value(&j);
		int key = 0;
		while (key < 4 && !cn_same(name, (cn_text){ names[key], sizes[key] }))
			key++;
		if (key == 4)
			return cn_refuse(name, CN_LITERAL("no such key, want refuse, alias, serves or system"));
		if (value.n < 2 || value.p[0] != '"' || value.n - 2 > TEXT_MAX)
			return cn_refuse(name, CN_LITERAL("want a text of at most 4096 bytes"));
		texts[key].n = value.n - 2;
		__builtin_memcpy(texts[key].p, value.p + 1, value.n - 2);
	}
	return cn_json_end(&j) ? CN_OK : cn_refuse(CN_LITERAL(""), CN_LITERAL("want a JSON object"));
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* letter takes the next letter of a JSON text, lower case; what is escaped and no ASCII is 0. */
static char letter(cn_text *s)
{
	char c = *s->p;
	uint32_t took = 1;
	if (c == '\\' && s->n > 1) {
		c = s->p[1];
		took = 2;
		if (c == 'u' && s->n > 5) {
			int code = 0;
			for (int i = 2; i < 6; i++)
				code = code * 16 + hex(s->p[i]);
			c = (char)(code > 0 && code < 0x80 ? code : 0);
			took = 6;
		} else if (c == 'n' || c == 't' || c == 'r') {
			c = c == 'n' ? '\n' : c == 't' ? '\t' : '\r';
		}
	}
	s->p += took;
	s->n -= took;
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* about says whether the phrase is in a value. */
static int about(cn_text value)
{
	const cn_text phrase = { texts[REFUSE].p, texts[REFUSE].n };
	while (phrase.n > 0 && value.n > 0) {
		cn_text at = value, want = phrase;
		while (want.n > 0 && at.n > 0) {
			cn_text before = want;
			if (letter(&at) != letter(&before))
				break;
			want = before;
		}
		if (want.n == 0)
			return 1;
		letter(&value);
	}
	return 0;
}

/* system_prompt puts the instructions before a value, which is a text or a list of blocks. */
static void system_prompt(cn_text value)
{
	cn_text mine = { texts[SYSTEM].p, texts[SYSTEM].n };
	if (value.n > 2 && value.p[0] == '"') {
		cn_put_byte('"');
		cn_put(mine);
		cn_puts("\\n\\n");
		cn_put((cn_text){ value.p + 1, value.n - 1 });
	} else if (value.n > 2 && value.p[0] == '[') {
		cn_puts("[{\"type\":\"text\",\"text\":\"");
		cn_put(mine);
		cn_puts("\"},");
		cn_put((cn_text){ value.p + 1, value.n - 1 });
	} else {
		cn_put_byte('"');
		cn_put(mine);
		cn_put_byte('"');
	}
}

static int cn_rewrite(const cn_rewrite_input *in)
{
	cn_json j = { in->body, 0, 0 };
	cn_text name;
	int given = 0, first = 1;
	cn_json_open(&j, '{');
	cn_put_byte('{');
	while (cn_json_member(&j, &name)) {
		cn_text value = cn_json_value(&j);
		int system = cn_same(name, CN_LITERAL("system"));
		if (!first)
			cn_put_byte(',');
		first = 0;
		cn_put_byte('"');
		cn_put(name);
		cn_puts("\":");
		if ((system || cn_same(name, CN_LITERAL("messages"))) && about(value))
			return cn_refuse(name, CN_LITERAL("this topic is not served here"));
		if (cn_same(name, CN_LITERAL("model")) && value.n > 2 && texts[ALIAS].n > 0 &&
		    cn_same((cn_text){ value.p + 1, value.n - 2 }, (cn_text){ texts[ALIAS].p, texts[ALIAS].n })) {
			cn_put_byte('"');
			cn_put((cn_text){ texts[SERVES].p, texts[SERVES].n });
			cn_put_byte('"');
		} else if (system && texts[SYSTEM].n > 0) {
			given = 1;
			system_prompt(value);
		} else {
			cn_put(value);
		}
	}
	if (!cn_json_end(&j))
		return CN_DECLINE; /* no JSON object: the node refuses it */
	if (texts[SYSTEM].n > 0 && !given) {
		cn_puts(",\"system\":");
		system_prompt(CN_LITERAL(""));
	}
	cn_put_byte('}');
	return CN_OK;
}
