/* A rewrite module: it refuses requests about what the operator's configuration names, lets
 * a name of a model stand for another, and puts instructions before those of the client.
 *
 *     {"refuse": "project zebulon", "alias": "fast", "serves": "core-1.1-mini", "system": "Answer in English."}
 *
 * The phrase is looked for in all of messages and system, without regard to the case of a to z,
 * and however it or the name of the member is escaped. Each of the keys may be left out.
 */
#define CN_REWRITE
#define CN_CONFIGURE
#include "corenode.h"

enum { TEXT_MAX = 4096 };

static struct { char p[TEXT_MAX]; uint32_t n; } texts[4]; /* unescaped; the phrase in small letters */
enum { REFUSE, ALIAS, SERVES, SYSTEM };

static cn_text text(int key) { return (cn_text){ texts[key].p, texts[key].n }; }

static char small(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* unescaped is what a text of JSON says, until the next write: it lies behind the output. */
static cn_text unescaped(cn_text s)
{
	uint32_t from = cn_out_len;
	cn_put_unescaped(s);
	cn_text said = { cn_out + from, cn_out_len - from };
	cn_out_len = from;
	return said;
}

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
		value = unescaped((cn_text){ value.p + 1, value.n - 2 });
		texts[key].n = value.n;
		for (uint32_t i = 0; i < value.n; i++)
			texts[key].p[i] = key == REFUSE ? small(value.p[i]) : value.p[i];
	}
	return cn_json_end(&j) ? CN_OK : cn_refuse(CN_LITERAL(""), CN_LITERAL("want a JSON object"));
}

/* about says whether the phrase is in a value. */
static int about(cn_text value)
{
	cn_text phrase = text(REFUSE), said;
	if (phrase.n == 0)
		return 0;
	said = unescaped(value);
	for (uint32_t at = 0; at + phrase.n <= said.n; at++) {
		uint32_t same = 0;
		while (same < phrase.n && small(said.p[at + same]) == phrase.p[same])
			same++;
		if (same == phrase.n)
			return 1;
	}
	return 0;
}

/* is_alias says whether a value is the name that stands for another. */
static int is_alias(cn_text value)
{
	return value.n > 2 && value.p[0] == '"' && texts[ALIAS].n > 0 &&
	       cn_same(unescaped((cn_text){ value.p + 1, value.n - 2 }), text(ALIAS));
}

/* put_name writes a name as the node reads it, whatever its client escaped of it. */
static void put_name(cn_text name)
{
	uint32_t from = cn_out_len;
	cn_put_unescaped(name);
	uint32_t n = cn_out_len - from;
	cn_put_escaped((cn_text){ cn_out + from, n });
	__builtin_memmove(cn_out + from, cn_out + from + n, cn_out_len - from - n);
	cn_out_len -= n;
}

/* system_prompt puts the instructions before a value, which is a text or a list of blocks. */
static void system_prompt(cn_text value)
{
	uint32_t first = 1; /* byte of a list that is no space */
	while (first < value.n && (unsigned char)value.p[first] <= ' ')
		first++;
	if (value.n > 2 && value.p[0] == '"') {
		cn_put_byte('"');
		cn_put_escaped(text(SYSTEM));
		cn_puts("\\n\\n");
		cn_put((cn_text){ value.p + 1, value.n - 1 });
	} else if (first < value.n && value.p[0] == '[' && value.p[first] != ']') {
		cn_puts("[{\"type\":\"text\",\"text\":\"");
		cn_put_escaped(text(SYSTEM));
		cn_puts("\"},");
		cn_put((cn_text){ value.p + 1, value.n - 1 });
	} else {
		cn_put_byte('"');
		cn_put_escaped(text(SYSTEM));
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
		cn_text value = cn_json_value(&j), said = unescaped(name);
		int system = cn_same(said, CN_LITERAL("system")), messages = cn_same(said, CN_LITERAL("messages"));
		int model = cn_same(said, CN_LITERAL("model"));
		if ((system || messages) && about(value))
			return cn_refuse(system ? CN_LITERAL("system") : CN_LITERAL("messages"), CN_LITERAL("this topic is not served here"));
		if (!first)
			cn_put_byte(',');
		first = 0;
		cn_put_byte('"');
		put_name(name);
		cn_puts("\":");
		if (model && is_alias(value)) {
			cn_put_byte('"');
			cn_put_escaped(text(SERVES));
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
		if (!first)
			cn_put_byte(',');
		cn_puts("\"system\":");
		system_prompt(CN_LITERAL(""));
	}
	cn_put_byte('}');
	return CN_OK;
}
