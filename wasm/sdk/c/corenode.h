/* corenode.h: modules of node-abi/1 in C99, without libc. One header, one file.
 *
 *     #define CN_BILLING                    // or CN_TRANSLATOR, with routes CN_ROUTER, CN_ADMISSION, CN_REWRITE, CN_FILTER
 *     #include "corenode.h"
 *     static int cn_quote(const cn_quote_input *in, cn_quote_output *out) { ... }
 *     static int cn_charge(const cn_charge_input *in, cn_charge_output *out) { ... }
 *
 *     clang --target=wasm32 -std=c99 -O2 -mbulk-memory -nostdlib -Wl,--no-entry \
 *           -Wl,--stack-first -Wl,--strip-all -o module.wasm module.c
 *
 * The header exports abi, buf, init and call and asks for the functions below
 * that the module's kind has; define CN_CONFIGURE to have cn_configure called
 * too. Each returns CN_OK, CN_DECLINE (the node's built-in module does this one)
 * or, where it says so, what cn_refuse returns. Anything else, or more than a
 * record holds, traps: a fault, which is never taken for a decline.
 *
 * Memory is: stack and globals, the input, the output. There is no heap: input
 * and output grow where they are, and a module that reaches its cap traps. What
 * a function is given points into the input and is gone when it returns. Keep
 * nothing between calls but what cn_configure made: a call is a pure function.
 */
#ifndef CORENODE_H
#define CORENODE_H

#include <stdint.h>

#ifndef __wasm_bulk_memory__
#error "build with -mbulk-memory: without libc there is no memcpy"
#endif

#ifdef CN_ROUTER
#define CN_TRANSLATOR
#endif
#define CN_ABI_VERSION (1 << 16)
#define CN_UNUSED __attribute__((unused))

/* cn_text is n bytes that belong to somebody else; not terminated by a zero. */
typedef struct { const char *p; uint32_t n; } cn_text;

#define CN_LITERAL(s) ((cn_text){ "" s "", sizeof("" s "") - 1 }) /* of a literal only, as cn_puts */

CN_UNUSED static int cn_same(cn_text a, cn_text b)
{
	if (a.n != b.n)
		return 0;
	for (uint32_t i = 0; i < a.n; i++)
		if (a.p[i] != b.p[i])
			return 0;
	return 1;
}

/* ---- records: numbers and types, in the order in which they cross the boundary */

/* cn_reader is what is left of a record. */
typedef struct { const char *p; uint32_t n; int bad; } cn_reader;
/* cn_list is count records in a row, which are read as they are taken. */
typedef struct { uint32_t count; cn_reader at; } cn_list;

/* table: records (made by make abi) */
/* what an output frame holds */
enum {
	CN_OK = 0, /* the operation's output */
	CN_ERROR = 1, /* a refusal */
	CN_DECLINE = 2, /* nothing: the node's built-in module does this one */
};

/* kinds of error; treat one you do not know as internal */
enum {
	CN_INTERNAL = 0, /* the node's own fault: nobody classified it */
	CN_INVALID_REQUEST = 1, /* a body or parameter that cannot be served */
	CN_MODEL_NOT_FOUND = 2, /* an unknown model, or one that the account may not use */
	CN_PATH_NOT_FOUND = 3, /* an unknown path */
	CN_UNAUTHENTICATED = 4, /* a missing or unknown key */
	CN_INSUFFICIENT_BALANCE = 5, /* an account whose money does not cover the request */
	CN_RATE_LIMITED = 6, /* an account over its limits */
	CN_OVERLOADED = 7, /* a node that cannot take the request now */
	CN_TOO_LARGE = 8, /* a body over the limit, compressed or decoded */
	CN_METHOD_NOT_ALLOWED = 9, /* a known path with a wrong method */
	CN_UNSUPPORTED_ENCODING = 10, /* a Content-Encoding or Content-Type that the node does not read */
	CN_READ_TIMEOUT = 11, /* a request that did not arrive in time */
	CN_TIMEOUT = 12, /* an answer in one piece over its wall clock */
	CN_CANCELED = 13, /* the client went away: nobody reads the answer */
};

/* what is wrong with a request; treat one you do not know as field */
enum {
	CN_REASON_NONE = 0, /* the message says all of it */
	CN_REASON_FIELD = 1, /* the field cannot be served */
	CN_REASON_LIMIT = 2, /* as 1, because it is beyond a limit */
	CN_REASON_SYNTAX = 3, /* the messages body is no valid JSON at the field */
	CN_REASON_WINDOW = 4, /* prompt and answer do not fit the context window together */
	CN_REASON_MEMORY = 5, /* prompt and answer do not fit the node's memory together */
	CN_REASON_ANY_CALL = 6, /* a call is forced, of any tool, and there are no tools */
	CN_REASON_NAMED_CALL = 7, /* as 6, of one named tool */
	CN_REASON_PROMPT = 8, /* the prompt alone does not fit the context window */
	CN_REASON_WAIT = 9, /* it can be tried again later */
};

/* kinds of event frames; skip those you do not know */
enum {
	CN_START = 0, /* start of the answer */
	CN_BLOCK_START = 1, /* a block begins; of a tool use with its id and name */
	CN_DELTA = 2, /* a piece of the block's text, by its kind */
	CN_BLOCK_STOP = 3, /* the block is done */
	CN_END = 4, /* end of the answer */
	CN_ELAPSED = 6, /* before the end, to modules with routes */
};

/* what a block holds */
enum {
	CN_THINKING = 0, /* what the model thinks */
	CN_TEXT = 1, /* what it says */
	CN_TOOL_USE = 2, /* a call of a tool */
};

/* why an answer ended */
enum {
	CN_STOP_NONE = 0, /* it did not end */
	CN_STOP_END_TURN = 1, /* the model was done */
	CN_STOP_MAX_TOKENS = 2, /* its tokens, or those of the context window, are spent */
	CN_STOP_TOOL_USE = 3, /* a tool call is to be executed */
	CN_STOP_SEQUENCE = 4, /* it came to a stop sequence of the request */
};

/* what an admission policy says */
enum {
	CN_ALLOW = 0, /* admit it */
	CN_DENY = 1, /* refuse it, with a kind of error */
	CN_QUEUE = 2, /* admit it, with a priority among those that wait */
	CN_RESERVE = 3, /* admit it as queue does if it gets all that it takes of counters, else refuse it as deny does */
};

#define CN_LINES_MAX 16
#define CN_UNIT_BYTES 16
#define CN_COUNTERS_MAX 4

/* what the node knows of a request, the same in every call of it */
typedef struct {
	int64_t created; /* when the request came, Unix seconds */
	int stream; /* the answer is a stream; false in request */
	cn_text id; /* the request's own part of an id, [a-z0-9]; add a prefix such as chatcmpl- */
	cn_text model; /* the model that answers; empty in request */
} cn_facts;

/* one named value of a request */
typedef struct {
	cn_text name;
	cn_text value;
} cn_pair;

/* how a request reached a module with routes */
typedef struct {
	uint16_t index; /* of the manifest's routes */
	cn_list params; /* parameters of the path, in its order, unescaped; take them with cn_next_pair */
	cn_list query; /* the parameters that the manifest names, unescaped; take them with cn_next_pair */
	cn_list headers; /* the headers that the manifest names, by its spelling; take them with cn_next_pair */
} cn_route;

/* one model in a listing, which the request's key may use */
typedef struct {
	int64_t created; /* Unix seconds */
	int64_t context; /* tokens of prompt and answer together */
	int64_t output; /* the most tokens of an answer */
	cn_text id;
	cn_text name; /* for people */
} cn_model;

/* nano-dollars for a token */
typedef struct {
	int64_t input; /* one of the prompt that was computed */
	int64_t cached; /* one of the prompt that came from the prefix cache */
	int64_t output; /* one that was produced, reasoning included */
} cn_prices;

/* what a request used, in tokens */
typedef struct {
	int64_t uncached; /* of the prompt, computed for this request */
	int64_t cache_read; /* of the prompt, from the prefix cache */
	int64_t cache_write; /* of the prompt, billed for writing the cache */
	int64_t output; /* produced, reasoning included */
	int64_t reasoning; /* a part of output */
} cn_usage;

/* how long an answer took, in nanoseconds */
typedef struct {
	int64_t total; /* from the request's last byte */
	int64_t load; /* of the model: 0, since it is in memory */
	int64_t prompt; /* until the first token */
	int64_t generation; /* from the first token on */
} cn_elapsed;

/* one item of a charge */
typedef struct {
	char unit[CN_UNIT_BYTES]; /* such as input, cached_input, output */
	int64_t tokens;
	int64_t price; /* of one token, for people */
	int64_t amount; /* nano-dollars */
} cn_line;

/* what a quote or a decision says of one counter */
typedef struct {
	int64_t limit; /* what the account may take of it in its period */
	int64_t most; /* what the request may take of that */
} cn_counter;

/* a body of the module's protocol */
typedef struct {
	cn_facts facts;
	cn_route route; /* given to modules with routes; since ABI 1.1 */
	cn_text body;
} cn_request_input;

/* the next event group of a stream */
typedef struct {
	cn_facts facts;
	cn_text state; /* what the last group's call gave; empty at first */
	cn_text kept; /* what request kept, in the groups that hold the start or the end */
	cn_text history; /* frames of the answer so far, if the manifest asks for it */
	cn_text events; /* frames */
} cn_events_input;

/* a whole answer that is not streamed */
typedef struct {
	cn_facts facts;
	cn_text kept; /* what request kept */
	cn_text events; /* frames with one delta a block */
} cn_response_input;

/* a failure that the client is told */
typedef struct {
	cn_facts facts;
	cn_text state; /* as in events; empty when nothing was written */
	cn_text kept; /* empty when the request was not translated */
	cn_text history; /* frames of the answer so far, if the manifest asks for it */
	uint16_t status; /* of HTTP, which goes with a body */
	uint16_t kind;
	uint16_t reason; /* what is wrong; since ABI 1.1 */
	int64_t prompt; /* the numbers of the reason; since ABI 1.1 */
	int64_t value; /* since ABI 1.1 */
	int64_t bound; /* since ABI 1.1 */
	cn_text param; /* path of the field at fault, may be empty */
	cn_text msg; /* for the client, not escaped */
} cn_error_input;

/* a question for the node's models */
typedef struct {
	cn_facts facts;
	cn_route route;
	cn_list models; /* by id; take them with cn_next_model */
	cn_text body; /* of a POST */
} cn_models_input;

/* the tokens of a prompt that request translated */
typedef struct {
	cn_facts facts;
	int64_t tokens;
	cn_text kept; /* what request kept */
} cn_count_input;

/* the most that a request may use */
typedef struct {
	cn_prices prices;
	int64_t input; /* tokens of the prompt, of which any part may come from the cache */
	int64_t output_max;
	int64_t at; /* when the request came, Unix seconds */
	cn_text model;
	cn_text account;
} cn_quote_input;

/* what a request used */
typedef struct {
	cn_prices prices;
	cn_usage usage;
	int64_t at; /* as in quote */
	uint32_t count;
	int64_t held[CN_COUNTERS_MAX]; /* what the request has of each counter; since ABI 1.1 */
	cn_text model;
	cn_text account;
} cn_charge_input;

/* a request that passed every check but the account's limits */
typedef struct {
	int64_t at; /* Unix seconds */
	int64_t prompt_tokens;
	int64_t output_max;
	int stream;
	int64_t account_requests; /* of the account, running now */
	int64_t account_requests_max;
	int64_t tokens_remaining; /* of the account's tokens per minute; may be negative */
	int64_t tokens_per_minute;
	int64_t available; /* nano-dollars without open holds; means nothing with unlimited */
	int unlimited; /* the account needs no money */
	int64_t node_requests; /* running or waiting on the node */
	int64_t node_requests_max;
	int64_t model_queued; /* requests that wait for their first step on the model; since ABI 1.1 */
	int64_t model_queued_max; /* more are refused; since ABI 1.1 */
	int64_t model_wait_ms; /* until one that comes now begins; since ABI 1.1 */
	int64_t model_pages_used; /* pages of the cache that requests hold; since ABI 1.1 */
	int64_t model_pages; /* all pages; since ABI 1.1 */
	cn_text account;
	cn_text key; /* the key's id, never the secret */
	cn_text model;
	cn_text protocol; /* messages, chat, responses or that of a module */
} cn_admission_input;

/* the messages body of a request, before anything is made of it */
typedef struct {
	int64_t at; /* Unix seconds */
	int counting; /* only its tokens are counted */
	cn_text account;
	cn_text key; /* the key's id, never the secret */
	cn_text protocol; /* messages, chat, responses or that of a module */
	cn_text body; /* JSON */
} cn_rewrite_input;

/* the next piece of a block */
typedef struct {
	cn_facts facts;
	uint8_t block; /* thinking or text */
	int last; /* the block ends with this piece: nothing may be held back */
	cn_text state; /* what the piece before left */
	cn_text text; /* UTF-8, not escaped */
} cn_filter_input;

/* no charge is above upper; an account that has less than minimum is refused */
typedef struct {
	int64_t upper;
	int64_t minimum;
	int64_t covered_upper; /* the bounds if the request gets the most of every counter */
	int64_t covered_minimum;
	uint32_t count;
	cn_counter takes[CN_COUNTERS_MAX]; /* in the order of the manifest */
} cn_quote_output;

/* what a request costs */
typedef struct {
	int64_t total; /* the lines' amounts together */
	uint32_t tier; /* which rates applied; 1 is plain */
	uint32_t count;
	cn_line lines[CN_LINES_MAX]; /* at most 16 */
	uint32_t taken_count;
	int64_t taken[CN_COUNTERS_MAX]; /* what is used up of held; the rest goes back */
} cn_charge_output;

/* what an admission policy says */
typedef struct {
	uint8_t verdict;
	int8_t priority; /* of a request that waits: higher goes first, 0 is what others have */
	uint16_t kind; /* of a denial */
	uint32_t retry_after_ms; /* of a denial; 0 is not said */
	uint32_t count;
	cn_counter takes[CN_COUNTERS_MAX]; /* of reserve: what it takes of the manifest's counters, in their order */
	cn_text msg; /* of a denial, for the client */
} cn_decision;

/* table: end of records */

#define CN_STATE_MAX 4096
typedef struct { uint32_t n; char p[CN_STATE_MAX]; } cn_state;
/* What a filter can hold back is what fits its state. */
#define CN_FILTER_STATE_MAX 256
typedef struct { uint32_t n; char p[CN_FILTER_STATE_MAX]; } cn_filter_state;

/* ---- what the module defines */

#ifdef CN_CONFIGURE
/* config is a JSON object, "{}" without one. May refuse. Runs once, first. */
static int cn_configure(cn_text config);
#endif
#ifdef CN_TRANSLATOR
/* Keep with cn_keep, then write the messages body with cn_put*. May refuse. */
static int cn_request(const cn_request_input *in);
/* Write whole SSE frames. next holds the last state and is the next one. */
static int cn_events(const cn_events_input *in, cn_state *next);
/* Write the body of a whole answer; the body, or the end of a stream, of an error. */
static int cn_response(const cn_response_input *in);
static int cn_error(const cn_error_input *in);
#endif
#ifdef CN_ROUTER
/* Of a translator with routes. Write the body of a listing; may refuse, also with
 * cn_refuse_model. Write the body of a count. */
static int cn_models(const cn_models_input *in);
static int cn_count_tokens(const cn_count_input *in);
#endif
#ifdef CN_BILLING
/* What these write with cn_put* is dropped. */
static int cn_quote(const cn_quote_input *in, cn_quote_output *out);
static int cn_charge(const cn_charge_input *in, cn_charge_output *out);
#endif
#ifdef CN_ADMISSION
/* What it writes with cn_put* is dropped; the message of a denial may be of it. */
static int cn_decide(const cn_admission_input *in, cn_decision *out);
#endif
#ifdef CN_REWRITE
/* Write the body to go on with; nothing leaves it as it is. May refuse. */
static int cn_rewrite(const cn_rewrite_input *in);
#endif
#ifdef CN_FILTER
/* Write what may be shown. state holds what the piece before left, and is what this one leaves. */
static int cn_filter(const cn_filter_input *in, cn_filter_state *state);
#endif

/* ---- memory: input at the heap's base, output behind it */

extern char __heap_base;
static uint32_t cn_input_room; /* bytes from the base that belong to the input */
static char *cn_out;           /* the output frame */
static uint32_t cn_out_len;    /* what is written of it */
static uint32_t cn_out_room;   /* from cn_out to the end of memory; never below cn_out_len */

static void cn_reserve(uintptr_t end)
{
	uintptr_t have = (uintptr_t)__builtin_wasm_memory_size(0) << 16;
	if (end < (uintptr_t)&__heap_base)
		__builtin_trap(); /* beyond 4 GiB */
	if (end > have && __builtin_wasm_memory_grow(0, (end - have + 0xffff) >> 16) == (uintptr_t)-1)
		__builtin_trap();
}

__attribute__((export_name("abi"))) int32_t cn_export_abi(void) { return CN_ABI_VERSION; }

__attribute__((export_name("buf"))) char *cn_export_buf(uint32_t n)
{
	if (n > cn_input_room) {
		if (n > 0x7fff0000u)
			__builtin_trap();
		cn_reserve((uintptr_t)&__heap_base + n);
		cn_input_room = n;
	}
	return &__heap_base;
}

/* ---- writing */

/* cn_grow makes the output's memory larger than cn_out_len + n. */
__attribute__((noinline)) static void cn_grow(uint32_t n)
{
	if (n > 0x7fff0000u)
		__builtin_trap();
	cn_reserve((uintptr_t)cn_out + cn_out_len + n);
	cn_out_room = (uint32_t)(((uintptr_t)__builtin_wasm_memory_size(0) << 16) - (uintptr_t)cn_out);
}

/* cn_room makes room for n bytes at the end of the output and gives their place. */
static inline char *cn_room(uint32_t n)
{
	if (n > cn_out_room - cn_out_len)
		cn_grow(n);
	char *at = cn_out + cn_out_len;
	cn_out_len += n;
	return at;
}

/* cn_put writes a text. A short one, as most pieces of an answer are, is copied
 * in two words that may overlap: the instruction for any length costs more. A loop
 * of words for what is longer costs more than the instruction. */
CN_UNUSED __attribute__((noinline)) static void cn_put(cn_text s)
{
	char *at = cn_room(s.n);
	uint64_t first, last;
	uint32_t head, tail;
	if (s.n >= 4 && s.n < 8) {
		__builtin_memcpy(&head, s.p, 4);
		__builtin_memcpy(&tail, s.p + s.n - 4, 4);
		__builtin_memcpy(at, &head, 4);
		__builtin_memcpy(at + s.n - 4, &tail, 4);
		return;
	}
	if (s.n < 8 || s.n > 16) {
		__builtin_memcpy(at, s.p, s.n);
		return;
	}
	__builtin_memcpy(&first, s.p, 8);
	__builtin_memcpy(&last, s.p + s.n - 8, 8);
	__builtin_memcpy(at, &first, 8);
	__builtin_memcpy(at + s.n - 8, &last, 8);
}

/* cn_puts writes a literal; its size is known, so there is no loop and no call.
 * Of a pointer sizeof would be that of the pointer: the empty literals around it
 * let nothing else compile. A text of any size is for cn_put. */
#define cn_puts(literal) ((void)__builtin_memcpy(cn_room(sizeof("" literal "") - 1), "" literal "", sizeof("" literal "") - 1))

CN_UNUSED static void cn_put_byte(char c) { *cn_room(1) = c; }
CN_UNUSED static void cn_put_u16(uint16_t v) { __builtin_memcpy(cn_room(2), &v, 2); }
CN_UNUSED static void cn_put_u32(uint32_t v) { __builtin_memcpy(cn_room(4), &v, 4); }
CN_UNUSED static void cn_put_i64(int64_t v) { __builtin_memcpy(cn_room(8), &v, 8); }

/* cn_put_section writes a length and the bytes. */
CN_UNUSED static void cn_put_section(cn_text s)
{
	cn_put_u32(s.n);
	cn_put(s);
}

CN_UNUSED static void cn_put_decimal(int64_t v)
{
	char digits[20];
	uint32_t at = sizeof digits;
	uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	do {
		digits[--at] = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	if (v < 0)
		digits[--at] = '-';
	cn_put((cn_text){ digits + at, sizeof digits - at });
}

/* cn_char is the length of the UTF-8 character that n > 0 bytes begin with; 0
 * if they begin with none. */
CN_UNUSED static uint32_t cn_char(const char *at, uint32_t n)
{
	const unsigned char *p = (const unsigned char *)at;
	uint32_t length = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
	if (length > n)
		return 0;
	for (uint32_t i = 1; i < length; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return length;
}

/* cn_put_escaped writes text as it stands between the quotes of a JSON string;
 * bytes that are no UTF-8 become U+FFFD. Texts in event frames and in JSON are
 * escaped already: cn_put those. */
CN_UNUSED static void cn_put_escaped(cn_text s)
{
	uint32_t clean = 0; /* from there to i nothing needs a change */
	for (uint32_t i = 0; i < s.n;) {
		unsigned char c = (unsigned char)s.p[i];
		if (c >= ' ' && c < 0x80 && c != '"' && c != '\\') {
			i++;
			continue;
		}
		uint32_t length = c < 0x80 ? 0 : cn_char(s.p + i, s.n - i);
		if (length) {
			i += length;
			continue;
		}
		cn_put((cn_text){ s.p + clean, i - clean });
		clean = ++i;
		if (c >= 0x80) {
			cn_puts("\xef\xbf\xbd");
		} else if (c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t') {
			cn_put_byte('\\');
			cn_put_byte((char)(c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't' : c));
		} else {
			cn_puts("\\u00");
			cn_put_byte("0123456789abcdef"[c >> 4]);
			cn_put_byte("0123456789abcdef"[c & 15]);
		}
	}
	cn_put((cn_text){ s.p + clean, s.n - clean });
}

/* ---- output frames: status u8, zero u8, kind u16, payload length u32, payload */

#define CN_HEADER 8

static void cn_begin(void)
{
	cn_out = (char *)(((uintptr_t)&__heap_base + cn_input_room + 15) & ~(uintptr_t)15);
	cn_out_len = cn_out_room = 0;
	cn_room(CN_HEADER);
}

static uint16_t cn_error_kind;

static int64_t cn_end(int status)
{
	if (status == CN_DECLINE)
		cn_out_len = CN_HEADER;
	uint32_t n = cn_out_len - CN_HEADER;
	cn_out[0] = (char)status;
	cn_out[1] = 0;
	uint16_t kind = status == CN_ERROR ? cn_error_kind : 0;
	__builtin_memcpy(cn_out + 2, &kind, 2);
	__builtin_memcpy(cn_out + 4, &n, 4);
	return (int64_t)((uint64_t)(uintptr_t)cn_out << 32 | cn_out_len);
}

#define CN_REFUSAL_MAX 2048

/* cn_put_clipped writes what a refusal may hold of a text in which clients may
 * have put anything: UTF-8 of at most CN_REFUSAL_MAX bytes. */
static void cn_put_clipped(cn_text s)
{
	uint32_t length;
	for (uint32_t i = 0; i < s.n; i += length ? length : 1) {
		length = cn_char(s.p + i, s.n - i);
		if (i + length > CN_REFUSAL_MAX || i == CN_REFUSAL_MAX)
			return;
		cn_put(length ? (cn_text){ s.p + i, length } : CN_LITERAL("?"));
	}
}

/* cn_behind is where a record begins that is made of a text: at from, or behind a
 * text that was written into the output. */
CN_UNUSED static uint32_t cn_behind(uint32_t from, cn_text s)
{
	uintptr_t end = (uintptr_t)s.p + s.n - (uintptr_t)cn_out;
	return (uintptr_t)s.p >= (uintptr_t)cn_out && end > from ? (uint32_t)end : from;
}

/* cn_alone makes what is written from there on all of the output. */
CN_UNUSED static void cn_alone(uint32_t from)
{
	cn_out_len -= from - CN_HEADER;
	__builtin_memmove(cn_out + CN_HEADER, cn_out + from, cn_out_len - CN_HEADER);
}

CN_UNUSED static int cn_refuse_as(uint16_t kind, cn_text param, cn_text msg)
{
	uint32_t from = cn_behind(cn_behind(CN_HEADER, param), msg);
	cn_out_len = from;
	cn_error_kind = kind;
	cn_put_u32(0);
	cn_put_clipped(param);
	uint32_t n = cn_out_len - from - 4;
	__builtin_memcpy(cn_out + from, &n, 4);
	cn_put_clipped(msg);
	cn_alone(from);
	return CN_ERROR;
}

/* cn_refuse makes the output an error of the client: which field, and what is
 * wrong with it. What was written before is dropped; these texts may be of it. */
CN_UNUSED static int cn_refuse(cn_text param, cn_text msg) { return cn_refuse_as(CN_INVALID_REQUEST, param, msg); }

/* cn_refuse_model is what cn_models returns of a model that there is not. */
CN_UNUSED static int cn_refuse_model(cn_text param, cn_text msg) { return cn_refuse_as(CN_MODEL_NOT_FOUND, param, msg); }

/* ---- reading */

static const char *cn_take(cn_reader *r, uint32_t n)
{
	static const char zeros[8];
	if (r->bad || n > r->n) {
		r->bad = 1;
		return zeros; /* fixed fields are at most as long */
	}
	const char *at = r->p;
	r->p += n;
	r->n -= n;
	return at;
}

CN_UNUSED static uint8_t cn_u8(cn_reader *r) { return (uint8_t)*cn_take(r, 1); }

CN_UNUSED static uint16_t cn_u16(cn_reader *r)
{
	uint16_t v;
	__builtin_memcpy(&v, cn_take(r, 2), 2);
	return v;
}

CN_UNUSED static uint32_t cn_u32(cn_reader *r)
{
	uint32_t v;
	__builtin_memcpy(&v, cn_take(r, 4), 4);
	return v;
}

CN_UNUSED static int64_t cn_i64(cn_reader *r)
{
	int64_t v;
	__builtin_memcpy(&v, cn_take(r, 8), 8);
	return v;
}

CN_UNUSED static cn_text cn_section(cn_reader *r)
{
	cn_text s = { 0, cn_u32(r) };
	s.p = cn_take(r, s.n);
	if (r->bad)
		s.n = 0;
	return s;
}

CN_UNUSED static cn_text cn_rest(cn_reader *r)
{
	cn_text s = { r->p, r->bad ? 0 : r->n };
	r->n = 0;
	return s;
}

/* cn_tagged takes the eight bytes of a tag if the record begins with them. */
CN_UNUSED static int cn_tagged(cn_reader *r, const char *tag)
{
	if (r->bad || r->n < 8)
		return 0;
	for (int i = 0; i < 8; i++)
		if (r->p[i] != tag[i])
			return 0;
	cn_take(r, 8);
	return 1;
}

/* table: readers (made by make abi) */
CN_UNUSED static void cn_read_facts(cn_reader *r, cn_facts *v)
{
	v->created = cn_i64(r);
	v->stream = cn_u8(r) != 0;
	v->id = cn_section(r);
	v->model = cn_section(r);
}

CN_UNUSED static void cn_read_pair(cn_reader *r, cn_pair *v)
{
	v->name = cn_section(r);
	v->value = cn_section(r);
}

CN_UNUSED static int cn_next_pair(cn_list *all, cn_pair *v)
{
	if (all->count == 0)
		return 0;
	all->count--;
	cn_read_pair(&all->at, v);
	return 1;
}

CN_UNUSED static void cn_read_route(cn_reader *r, cn_route *v)
{
	v->index = cn_u16(r);
	v->params.count = cn_u16(r);
	v->params.at = *r;
	for (uint32_t i = 0; i < v->params.count && !r->bad; i++) {
		cn_pair one;
		cn_read_pair(r, &one);
	}
	v->query.count = cn_u16(r);
	v->query.at = *r;
	for (uint32_t i = 0; i < v->query.count && !r->bad; i++) {
		cn_pair one;
		cn_read_pair(r, &one);
	}
	v->headers.count = cn_u16(r);
	v->headers.at = *r;
	for (uint32_t i = 0; i < v->headers.count && !r->bad; i++) {
		cn_pair one;
		cn_read_pair(r, &one);
	}
}

CN_UNUSED static void cn_read_model(cn_reader *r, cn_model *v)
{
	v->created = cn_i64(r);
	v->context = cn_i64(r);
	v->output = cn_i64(r);
	v->id = cn_section(r);
	v->name = cn_section(r);
}

CN_UNUSED static int cn_next_model(cn_list *all, cn_model *v)
{
	if (all->count == 0)
		return 0;
	all->count--;
	cn_read_model(&all->at, v);
	return 1;
}

CN_UNUSED static void cn_read_prices(cn_reader *r, cn_prices *v)
{
	v->input = cn_i64(r);
	v->cached = cn_i64(r);
	v->output = cn_i64(r);
}

CN_UNUSED static void cn_read_usage(cn_reader *r, cn_usage *v)
{
	v->uncached = cn_i64(r);
	v->cache_read = cn_i64(r);
	v->cache_write = cn_i64(r);
	v->output = cn_i64(r);
	v->reasoning = cn_i64(r);
}

CN_UNUSED static void cn_read_elapsed(cn_reader *r, cn_elapsed *v)
{
	v->total = cn_i64(r);
	v->load = cn_i64(r);
	v->prompt = cn_i64(r);
	v->generation = cn_i64(r);
}

CN_UNUSED static void cn_put_line(const cn_line *v)
{
	cn_put((cn_text){ v->unit, CN_UNIT_BYTES });
	cn_put_i64(v->tokens);
	cn_put_i64(v->price);
	cn_put_i64(v->amount);
}

CN_UNUSED static void cn_put_counter(const cn_counter *v)
{
	cn_put_i64(v->limit);
	cn_put_i64(v->most);
}

CN_UNUSED static void cn_read_request_input(cn_reader *r, cn_request_input *v)
{
	int since = cn_tagged(r, "request\x02");
	cn_read_facts(r, &v->facts);
	__builtin_memset(&v->route, 0, sizeof v->route);
	if (since >= 1)
		cn_read_route(r, &v->route);
	v->body = cn_rest(r);
}

CN_UNUSED static void cn_read_events_input(cn_reader *r, cn_events_input *v)
{
	cn_read_facts(r, &v->facts);
	v->state = cn_section(r);
	v->kept = cn_section(r);
	v->history = cn_section(r);
	v->events = cn_rest(r);
}

CN_UNUSED static void cn_read_response_input(cn_reader *r, cn_response_input *v)
{
	cn_read_facts(r, &v->facts);
	v->kept = cn_section(r);
	v->events = cn_rest(r);
}

CN_UNUSED static void cn_read_error_input(cn_reader *r, cn_error_input *v)
{
	int since = cn_tagged(r, "error/2");
	cn_read_facts(r, &v->facts);
	v->state = cn_section(r);
	v->kept = cn_section(r);
	v->history = cn_section(r);
	v->status = cn_u16(r);
	v->kind = cn_u16(r);
	v->reason = since >= 1 ? cn_u16(r) : 0;
	v->prompt = since >= 1 ? cn_i64(r) : 0;
	v->value = since >= 1 ? cn_i64(r) : 0;
	v->bound = since >= 1 ? cn_i64(r) : 0;
	v->param = cn_section(r);
	v->msg = cn_rest(r);
}

CN_UNUSED static void cn_read_models_input(cn_reader *r, cn_models_input *v)
{
	if (!cn_tagged(r, "models/1"))
		r->bad = 1;
	cn_read_facts(r, &v->facts);
	cn_read_route(r, &v->route);
	v->models.count = cn_u32(r);
	v->models.at = *r;
	for (uint32_t i = 0; i < v->models.count && !r->bad; i++) {
		cn_model one;
		cn_read_model(r, &one);
	}
	v->body = cn_rest(r);
}

CN_UNUSED static void cn_read_count_input(cn_reader *r, cn_count_input *v)
{
	if (!cn_tagged(r, "count/1"))
		r->bad = 1;
	cn_read_facts(r, &v->facts);
	v->tokens = cn_i64(r);
	v->kept = cn_section(r);
}

CN_UNUSED static void cn_read_quote_input(cn_reader *r, cn_quote_input *v)
{
	if (!cn_tagged(r, "quote/1"))
		r->bad = 1;
	cn_read_prices(r, &v->prices);
	v->input = cn_i64(r);
	v->output_max = cn_i64(r);
	v->at = cn_i64(r);
	v->model = cn_section(r);
	v->account = cn_rest(r);
}

CN_UNUSED static void cn_read_charge_input(cn_reader *r, cn_charge_input *v)
{
	int since = cn_tagged(r, "charge/3");
	if (!since && !cn_tagged(r, "charge/2"))
		r->bad = 1;
	cn_read_prices(r, &v->prices);
	cn_read_usage(r, &v->usage);
	v->at = cn_i64(r);
	v->count = since >= 1 ? cn_u32(r) : 0;
	r->bad |= v->count > CN_COUNTERS_MAX;
	for (uint32_t i = 0; i < CN_COUNTERS_MAX; i++)
		v->held[i] = i < v->count && !r->bad ? cn_i64(r) : 0;
	v->model = cn_section(r);
	v->account = cn_rest(r);
}

CN_UNUSED static void cn_read_admission_input(cn_reader *r, cn_admission_input *v)
{
	int since = cn_tagged(r, "decide/2");
	if (!since && !cn_tagged(r, "decide/1"))
		r->bad = 1;
	v->at = cn_i64(r);
	v->prompt_tokens = cn_i64(r);
	v->output_max = cn_i64(r);
	v->stream = cn_i64(r) != 0;
	v->account_requests = cn_i64(r);
	v->account_requests_max = cn_i64(r);
	v->tokens_remaining = cn_i64(r);
	v->tokens_per_minute = cn_i64(r);
	v->available = cn_i64(r);
	v->unlimited = cn_i64(r) != 0;
	v->node_requests = cn_i64(r);
	v->node_requests_max = cn_i64(r);
	v->model_queued = since >= 1 ? cn_i64(r) : 0;
	v->model_queued_max = since >= 1 ? cn_i64(r) : 0;
	v->model_wait_ms = since >= 1 ? cn_i64(r) : 0;
	v->model_pages_used = since >= 1 ? cn_i64(r) : 0;
	v->model_pages = since >= 1 ? cn_i64(r) : 0;
	v->account = cn_section(r);
	v->key = cn_section(r);
	v->model = cn_section(r);
	v->protocol = cn_rest(r);
}

CN_UNUSED static void cn_read_rewrite_input(cn_reader *r, cn_rewrite_input *v)
{
	if (!cn_tagged(r, "rewrit/1"))
		r->bad = 1;
	v->at = cn_i64(r);
	v->counting = cn_u8(r) != 0;
	v->account = cn_section(r);
	v->key = cn_section(r);
	v->protocol = cn_section(r);
	v->body = cn_rest(r);
}

CN_UNUSED static void cn_read_filter_input(cn_reader *r, cn_filter_input *v)
{
	if (!cn_tagged(r, "filter/1"))
		r->bad = 1;
	cn_read_facts(r, &v->facts);
	v->block = cn_u8(r);
	v->last = cn_u8(r) != 0;
	v->state = cn_section(r);
	v->text = cn_rest(r);
}

CN_UNUSED static void cn_put_quote(const cn_quote_output *v)
{
	cn_put_i64(v->upper);
	cn_put_i64(v->minimum);
	if (v->count) {
		cn_put_i64(v->covered_upper);
		cn_put_i64(v->covered_minimum);
		cn_put_u32(v->count);
		for (uint32_t i = 0; i < v->count; i++)
			cn_put_counter(&v->takes[i]);
	}
}

CN_UNUSED static void cn_put_charge(const cn_charge_output *v)
{
	cn_put_i64(v->total);
	cn_put_u32(v->tier);
	cn_put_u32(v->count);
	for (uint32_t i = 0; i < v->count; i++)
		cn_put_line(&v->lines[i]);
	if (v->taken_count) {
		cn_put_u32(v->taken_count);
		for (uint32_t i = 0; i < v->taken_count; i++)
			cn_put_i64(v->taken[i]);
	}
}

CN_UNUSED static void cn_put_decision(const cn_decision *v)
{
	cn_put_byte((char)v->verdict);
	cn_put_byte((char)v->priority);
	cn_put_u16(v->kind);
	cn_put_u32(v->retry_after_ms);
	if (v->verdict == CN_RESERVE) {
		cn_put_u32(v->count);
		for (uint32_t i = 0; i < v->count; i++)
			cn_put_counter(&v->takes[i]);
	}
	cn_put_clipped(v->msg);
}

/* table: end of readers */

/* cn_named is the value of the first pair with a name; of none its p is 0. */
CN_UNUSED static cn_text cn_named(cn_list all, cn_text name)
{
	cn_pair one;
	while (cn_next_pair(&all, &one))
		if (cn_same(one.name, name))
			return one.value;
	return (cn_text){ 0, 0 };
}

/* ---- event frames: kind u8, block or stop u8, index u16, payload length u32, payload */

typedef struct {
	uint8_t kind;  /* skip kinds you do not know */
	uint8_t mark;  /* CN_END: why it stopped; else the kind of block */
	uint16_t index;
	cn_text text;  /* the payload; of a CN_DELTA the escaped text */
} cn_frame;

#define CN_FRAME_HEADER 8

/* cn_next takes the next frame off events; 0 when there is none. */
CN_UNUSED static int cn_next(cn_text *events, cn_frame *f)
{
	const char *p = events->p;
	uint32_t n;
	if (events->n < CN_FRAME_HEADER)
		return 0;
	__builtin_memcpy(&n, p + 4, 4);
	if (n > events->n - CN_FRAME_HEADER)
		return 0;
	f->kind = (uint8_t)p[0];
	f->mark = (uint8_t)p[1];
	__builtin_memcpy(&f->index, p + 2, 2);
	f->text = (cn_text){ p + CN_FRAME_HEADER, n };
	events->p += CN_FRAME_HEADER + n;
	events->n -= CN_FRAME_HEADER + n;
	return 1;
}

/* cn_frame_usage is the usage of a CN_START or CN_END, and its stop sequence, escaped. */
CN_UNUSED static cn_usage cn_frame_usage(const cn_frame *f, cn_text *stop_sequence)
{
	cn_reader r = { f->text.p, f->text.n, 0 };
	cn_usage u;
	cn_read_usage(&r, &u);
	cn_text rest = cn_rest(&r);
	if (stop_sequence)
		*stop_sequence = rest;
	return u;
}

/* cn_frame_elapsed is what a CN_ELAPSED says, in nanoseconds. */
CN_UNUSED static cn_elapsed cn_frame_elapsed(const cn_frame *f)
{
	cn_reader r = { f->text.p, f->text.n, 0 };
	cn_elapsed e;
	cn_read_elapsed(&r, &e);
	return e;
}

/* cn_frame_tool is the escaped id and name of a CN_BLOCK_START of CN_TOOL_USE. */
CN_UNUSED static void cn_frame_tool(const cn_frame *f, cn_text *id, cn_text *name)
{
	cn_reader r = { f->text.p, f->text.n, 0 };
	id->n = cn_u16(&r);
	id->p = cn_take(&r, id->n);
	*name = cn_rest(&r);
	if (r.bad)
		id->n = 0;
}

/* ---- JSON: enough to find values in a body or a configuration
 *
 * cn_json walks one text forward without taking it apart:
 *
 *     cn_json j = { body, 0, 0 };
 *     cn_text name;
 *     if (!cn_json_open(&j, '{')) ...
 *     while (cn_json_member(&j, &name))
 *         if (cn_same(name, CN_LITERAL("model"))) model = cn_json_value(&j);
 *         else cn_json_value(&j);
 *     if (!cn_json_end(&j)) ...
 *
 * What it takes is valid JSON, in UTF-8, at any depth up to CN_DEPTH_MAX, so a value
 * may be written into another body as it stands.
 */
#define CN_DEPTH_MAX 128

typedef struct { cn_text rest; int started, bad; } cn_json;

static int cn_json_fail(cn_json *j)
{
	j->bad = 1;
	j->rest.n = 0;
	return 0;
}

static int cn_json_peek(cn_json *j)
{
	while (j->rest.n > 0 && (*j->rest.p == ' ' || *j->rest.p == '\n' || *j->rest.p == '\r' || *j->rest.p == '\t')) {
		j->rest.p++;
		j->rest.n--;
	}
	return j->rest.n > 0 ? (unsigned char)*j->rest.p : -1;
}

static void cn_json_skip(cn_json *j, uint32_t n)
{
	j->rest.p += n;
	j->rest.n -= n;
}

static int cn_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

/* cn_escape is the length of the escape that n bytes begin with; 0 if it is none. */
static uint32_t cn_escape(const char *p, uint32_t n)
{
	if (n < 2 || p[0] != '\\')
		return 0;
	switch (p[1]) {
	case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
		return 2;
	case 'u':
		return n >= 6 && cn_hex(p[2]) && cn_hex(p[3]) && cn_hex(p[4]) && cn_hex(p[5]) ? 6 : 0;
	}
	return 0;
}

/* cn_json_string takes a string, quotes and all. */
static cn_text cn_json_string(cn_json *j)
{
	cn_text s = { j->rest.p, 0 };
	for (uint32_t i = 1, step; i < j->rest.n; i += step) {
		unsigned char c = (unsigned char)s.p[i];
		if (c == '"') {
			s.n = i + 1;
			cn_json_skip(j, s.n);
			return s;
		}
		step = c >= ' ' && c < 0x80 ? 1 : 0;
		if (c == '\\')
			step = cn_escape(s.p + i, j->rest.n - i);
		else if (c >= 0x80)
			step = cn_char(s.p + i, j->rest.n - i);
		if (!step)
			break;
	}
	cn_json_fail(j);
	return s;
}

/* cn_json_plain takes a number, true, false or null. */
static void cn_json_plain(cn_json *j)
{
	static const cn_text words[3] = { CN_LITERAL("true"), CN_LITERAL("false"), CN_LITERAL("null") };
	const char *p = j->rest.p;
	uint32_t n = j->rest.n, i = 0, from;
	for (int w = 0; w < 3; w++)
		if (n >= words[w].n && cn_same((cn_text){ p, words[w].n }, words[w])) {
			cn_json_skip(j, words[w].n);
			return;
		}
#define CN_DIGITS for (from = i; i < n && p[i] >= '0' && p[i] <= '9'; i++)
	if (n > 0 && p[0] == '-')
		i++;
	CN_DIGITS;
	int good = i > from && (p[from] != '0' || i == from + 1);
	if (good && i < n && p[i] == '.') {
		i++;
		CN_DIGITS;
		good = i > from;
	}
	if (good && i < n && (p[i] == 'e' || p[i] == 'E')) {
		i++;
		if (i < n && (p[i] == '+' || p[i] == '-'))
			i++;
		CN_DIGITS;
		good = i > from;
	}
#undef CN_DIGITS
	if (good)
		cn_json_skip(j, i);
	else
		cn_json_fail(j);
}

/* cn_json_open goes into an object '{' or an array '['; 0 if there is none. */
CN_UNUSED static int cn_json_open(cn_json *j, char bracket)
{
	if (cn_json_peek(j) != bracket)
		return cn_json_fail(j);
	cn_json_skip(j, 1);
	j->started = 0;
	return 1;
}

static int cn_json_step(cn_json *j, char closer)
{
	int c = cn_json_peek(j);
	if (c == closer) {
		cn_json_skip(j, 1);
		j->started = 1;
		return 0;
	}
	if (j->started) {
		if (c != ',')
			return cn_json_fail(j);
		cn_json_skip(j, 1);
		c = cn_json_peek(j);
	}
	if (c < 0 || c == closer)
		return cn_json_fail(j);
	j->started = 1;
	return 1;
}

/* cn_json_element stands before the next element of the array; 0 at its end.
 * Take each with cn_json_value. */
CN_UNUSED static int cn_json_element(cn_json *j) { return cn_json_step(j, ']'); }

/* cn_json_member stands before the value of the object's next member; name is
 * as in the text, without quotes. 0 at the end. Take each value. */
CN_UNUSED static int cn_json_member(cn_json *j, cn_text *name)
{
	if (!cn_json_step(j, '}'))
		return 0;
	if (cn_json_peek(j) != '"')
		return cn_json_fail(j);
	*name = cn_json_string(j);
	if (cn_json_peek(j) != ':')
		return cn_json_fail(j);
	name->p++;
	name->n -= 2;
	cn_json_skip(j, 1);
	return 1;
}

/* cn_json_value takes the next value whole and gives its text; of none its n is 0. */
CN_UNUSED static cn_text cn_json_value(cn_json *j)
{
	enum { VALUE, FIRST_VALUE, KEY, FIRST_KEY, AFTER } wanted = VALUE;
	int c = cn_json_peek(j);
	cn_text v = { j->rest.p, 0 };
	char closers[CN_DEPTH_MAX];
	uint32_t depth = 0;
	do {
		c = cn_json_peek(j);
		if (depth > 0 && c == closers[depth - 1] && (wanted == AFTER || wanted == FIRST_VALUE || wanted == FIRST_KEY)) {
			depth--;
			cn_json_skip(j, 1);
			wanted = AFTER;
		} else if (wanted == AFTER && c == ',') {
			cn_json_skip(j, 1);
			wanted = closers[depth - 1] == '}' ? KEY : VALUE;
		} else if (wanted == AFTER || (wanted >= KEY && c != '"')) {
			cn_json_fail(j);
		} else if (c == '"') {
			cn_json_string(j);
			if (wanted >= KEY && cn_json_peek(j) != ':')
				cn_json_fail(j);
			else if (wanted >= KEY)
				cn_json_skip(j, 1);
			wanted = wanted >= KEY ? VALUE : AFTER;
		} else if ((c == '{' || c == '[') && depth < CN_DEPTH_MAX) {
			closers[depth++] = c == '{' ? '}' : ']';
			cn_json_skip(j, 1);
			wanted = c == '{' ? FIRST_KEY : FIRST_VALUE;
		} else {
			cn_json_plain(j);
			wanted = AFTER;
		}
	} while ((depth > 0 || wanted != AFTER) && !j->bad);
	v.n = j->bad ? 0 : (uint32_t)(j->rest.p - v.p);
	return v;
}

/* cn_json_end tells whether the text was well formed as far as it was read and
 * nothing follows. Ask it after the outermost object was left. */
CN_UNUSED static int cn_json_end(cn_json *j) { return cn_json_peek(j) < 0 && !j->bad; }

static uint32_t cn_unit(const char *p)
{
	uint32_t code = 0;
	for (int i = 2; i < 6; i++)
		code = code << 4 | (uint32_t)(p[i] <= '9' ? p[i] - '0' : (p[i] | 32) - 'a' + 10);
	return code;
}

/* cn_put_unescaped writes what a string says, of its text between the quotes. */
CN_UNUSED static void cn_put_unescaped(cn_text s)
{
	for (uint32_t i = 0, n; i < s.n; i += n) {
		n = s.p[i] == '\\' ? cn_escape(s.p + i, s.n - i) : 0;
		if (!n) {
			cn_put_byte(s.p[i]);
			n = 1;
			continue;
		}
		char c = s.p[i + 1];
		uint32_t code = (uint32_t)(c == 'b' ? 8 : c == 'f' ? 12 : c == 'n' ? 10 : c == 'r' ? 13 : c == 't' ? 9 : c);
		if (n == 6)
			code = cn_unit(s.p + i);
		if ((code & 0xf800) == 0xd800) {
			uint32_t next = code < 0xdc00 && cn_escape(s.p + i + 6, s.n - i - 6) == 6 ? cn_unit(s.p + i + 6) : 0;
			int pair = (next & 0xfc00) == 0xdc00;
			code = pair ? 0x10000 + ((code & 0x3ff) << 10) + (next & 0x3ff) : 0xfffd;
			n = pair ? 12 : 6;
		}
		if (code >= 0x80) {
			uint32_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
			cn_put_byte((char)(0xff80 >> more | code >> 6 * more));
			while (more--)
				cn_put_byte((char)(0x80 | (code >> 6 * more & 0x3f)));
		} else {
			cn_put_byte((char)code);
		}
	}
}

/* cn_json_int reads a value that is a whole number; 0 if it is none. */
CN_UNUSED static int cn_json_int(cn_text v, int64_t *out)
{
	uint32_t negative = v.n > 0 && v.p[0] == '-';
	uint64_t limit = (uint64_t)INT64_MAX + negative, n = 0;
	if (negative == v.n || (v.p[negative] == '0' && v.n > negative + 1))
		return 0;
	for (uint32_t i = negative; i < v.n; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return 0;
		uint64_t digit = (uint64_t)(v.p[i] - '0');
		if (n > (limit - digit) / 10)
			return 0;
		n = 10 * n + digit;
	}
	*out = negative ? (int64_t)(0 - n) : (int64_t)n;
	return 1;
}

/* ---- host functions: imported only where they are used */

enum { CN_DEBUG, CN_INFO, CN_WARN, CN_ERR };
__attribute__((import_module("corenode"), import_name("log"))) void cn_import_log(int32_t level, const char *p, uint32_t n);
__attribute__((import_module("corenode"), import_name("metric"))) void cn_import_metric(int32_t id, int64_t delta);

CN_UNUSED static void cn_log(int32_t level, cn_text line) { cn_import_log(level, line.p, line.n); }
CN_UNUSED static void cn_count(int32_t id, int64_t delta) { cn_import_metric(id, delta); }

/* ---- the operations */

/* cn_settled is CN_OK or CN_DECLINE, which lets a request in and shows a text as it
 * is. A failure must not: whatever else a status is, and an output that does not
 * fit its record, traps. */
CN_UNUSED static int cn_settled(int status, int fits)
{
	if (status != CN_DECLINE && (status != CN_OK || !fits))
		__builtin_trap();
	return status;
}

#ifdef CN_TRANSLATOR

/* cn_keep says what comes back with the answer's calls. Before the body. */
CN_UNUSED static void cn_keep(cn_text kept)
{
	if (cn_out_len != CN_HEADER + 4)
		__builtin_trap();
	cn_out_len = CN_HEADER;
	cn_put_section(kept);
}

static int cn_op_request(cn_reader *r)
{
	cn_request_input in;
	cn_read_request_input(r, &in);
	if (r->bad)
		return CN_DECLINE;
	cn_put_u32(0);
	return cn_request(&in);
}

/* cn_op_events leaves room for a state as large as the last one before the
 * bytes, and moves the bytes when the size changed. */
static int cn_op_events(cn_reader *r)
{
	static cn_state next;
	cn_events_input in;
	cn_read_events_input(r, &in);
	if (r->bad || in.state.n > CN_STATE_MAX)
		return CN_DECLINE;
	next.n = in.state.n;
	__builtin_memcpy(next.p, in.state.p, in.state.n);
	cn_room(4 + in.state.n); /* written at the end */
	uint32_t from = cn_out_len;
	int status = cn_events(&in, &next);
	if (status != CN_OK)
		return status;
	uint32_t n = cn_out_len - from;
	if (next.n > in.state.n)
		cn_room(next.n - in.state.n);
	char *state = cn_out + CN_HEADER + 4;
	if (next.n != in.state.n)
		__builtin_memmove(state + next.n, state + in.state.n, n);
	__builtin_memcpy(state, next.p, next.n);
	__builtin_memcpy(state - 4, &next.n, 4);
	cn_out_len = CN_HEADER + 4 + next.n + n;
	return CN_OK;
}

static int cn_op_response(cn_reader *r)
{
	cn_response_input in;
	cn_read_response_input(r, &in);
	return r->bad ? CN_DECLINE : cn_response(&in);
}

static int cn_op_error(cn_reader *r)
{
	cn_error_input in;
	cn_read_error_input(r, &in);
	return r->bad ? CN_DECLINE : cn_error(&in);
}

#endif
#ifdef CN_ROUTER

static int cn_op_models(cn_reader *r)
{
	cn_models_input in;
	cn_read_models_input(r, &in);
	return r->bad ? CN_DECLINE : cn_models(&in);
}

static int cn_op_count(cn_reader *r)
{
	cn_count_input in;
	cn_read_count_input(r, &in);
	return r->bad ? CN_DECLINE : cn_count_tokens(&in);
}

#endif
#ifdef CN_BILLING

static int cn_op_quote(cn_reader *r)
{
	cn_quote_input in;
	static cn_quote_output out;
	__builtin_memset(&out, 0, sizeof out);
	cn_read_quote_input(r, &in);
	int status = r->bad ? CN_DECLINE : cn_quote(&in, &out);
	if (cn_settled(status, out.count <= CN_COUNTERS_MAX) == CN_DECLINE)
		return CN_DECLINE;
	cn_out_len = CN_HEADER;
	cn_put_quote(&out);
	return CN_OK;
}

static int cn_op_charge(cn_reader *r)
{
	cn_charge_input in;
	static cn_charge_output out;
	__builtin_memset(&out, 0, sizeof out);
	cn_read_charge_input(r, &in);
	out.taken_count = in.count;
	int status = r->bad ? CN_DECLINE : cn_charge(&in, &out);
	if (cn_settled(status, out.count <= CN_LINES_MAX && out.taken_count <= CN_COUNTERS_MAX) == CN_DECLINE)
		return CN_DECLINE;
	cn_out_len = CN_HEADER;
	cn_put_charge(&out);
	return CN_OK;
}

/* cn_mul multiplies money and counts that are zero or more; 0 if one is not or
 * the product does not fit. (The compiler's own check needs a library.) */
CN_UNUSED static int cn_mul(int64_t a, int64_t b, int64_t *product)
{
	if (a < 0 || b < 0 || (a > 0 && b > INT64_MAX / a))
		return 0;
	*product = a * b;
	return 1;
}

/* cn_add_line adds tokens at a price to a charge; 0 if one is negative, the amount
 * does not fit or there are too many lines: then the charge is as it was. unit is
 * cut at CN_UNIT_BYTES. */
CN_UNUSED static int cn_add_line(cn_charge_output *out, cn_text unit, int64_t tokens, int64_t price)
{
	int64_t amount, total;
	if (out->count == CN_LINES_MAX || !cn_mul(tokens, price, &amount) || __builtin_add_overflow(out->total, amount, &total))
		return 0;
	out->total = total;
	cn_line *l = &out->lines[out->count++];
	for (uint32_t i = 0; i < unit.n && i < CN_UNIT_BYTES; i++)
		l->unit[i] = unit.p[i];
	l->tokens = tokens;
	l->price = price;
	l->amount = amount;
	return 1;
}

#endif
#ifdef CN_ADMISSION

static int cn_op_decide(cn_reader *r)
{
	cn_admission_input in;
	static cn_decision out;
	__builtin_memset(&out, 0, sizeof out); /* CN_ALLOW */
	cn_read_admission_input(r, &in);
	int status = r->bad ? CN_DECLINE : cn_decide(&in, &out);
	if (cn_settled(status, out.count <= CN_COUNTERS_MAX) == CN_DECLINE)
		return CN_DECLINE;
	uint32_t from = cn_out_len = cn_behind(CN_HEADER, out.msg);
	cn_put_decision(&out);
	cn_alone(from);
	return CN_OK;
}

#endif
#ifdef CN_REWRITE

static int cn_op_rewrite(cn_reader *r)
{
	cn_rewrite_input in;
	cn_read_rewrite_input(r, &in);
	return r->bad ? CN_DECLINE : cn_rewrite(&in);
}

#endif
#ifdef CN_FILTER

/* cn_op_filter leaves room for the largest state before the text, and moves the text. */
static int cn_op_filter(cn_reader *r)
{
	static cn_filter_state state;
	cn_filter_input in;
	cn_read_filter_input(r, &in);
	if (r->bad || in.state.n > CN_FILTER_STATE_MAX)
		return CN_DECLINE;
	state.n = in.state.n;
	__builtin_memcpy(state.p, in.state.p, in.state.n);
	cn_room(4 + CN_FILTER_STATE_MAX);
	uint32_t from = cn_out_len;
	int status = cn_filter(&in, &state);
	if (cn_settled(status, state.n <= CN_FILTER_STATE_MAX) == CN_DECLINE)
		return CN_DECLINE;
	uint32_t n = cn_out_len - from;
	char *at = cn_out + CN_HEADER;
	__builtin_memcpy(at, &state.n, 4);
	__builtin_memcpy(at + 4, state.p, state.n);
	__builtin_memmove(at + 4 + state.n, cn_out + from, n);
	cn_out_len = CN_HEADER + 4 + state.n + n;
	return CN_OK;
}

#endif

__attribute__((export_name("init"))) int64_t cn_export_init(uint32_t n)
{
	if (n > cn_input_room)
		return 0;
	cn_begin();
	cn_text config = n > 0 ? (cn_text){ &__heap_base, n } : CN_LITERAL("{}");
#ifdef CN_CONFIGURE
	return cn_end(cn_configure(config));
#else
	if (!cn_same(config, CN_LITERAL("{}")))
		return cn_end(cn_refuse(CN_LITERAL(""), CN_LITERAL("this module takes no configuration")));
	return cn_end(CN_OK);
#endif
}

__attribute__((export_name("call"))) int64_t cn_export_call(uint32_t op, uint32_t n)
{
	if (n > cn_input_room)
		return 0;
	cn_reader r = { &__heap_base, n, 0 };
	cn_begin();
	switch (op) {
#ifdef CN_TRANSLATOR
	case 1: return cn_end(cn_op_request(&r));
	case 2: return cn_end(cn_op_events(&r));
	case 3: return cn_end(cn_op_response(&r));
	case 4: return cn_end(cn_op_error(&r));
#endif
#ifdef CN_ROUTER
	case 5: return cn_end(cn_op_models(&r));
	case 6: return cn_end(cn_op_count(&r));
#endif
#ifdef CN_BILLING
	case 16: return cn_end(cn_op_quote(&r));
	case 17: return cn_end(cn_op_charge(&r));
#endif
#ifdef CN_ADMISSION
	case 32: return cn_end(cn_op_decide(&r));
#endif
#ifdef CN_REWRITE
	case 48: return cn_end(cn_op_rewrite(&r));
#endif
#ifdef CN_FILTER
	case 64: return cn_end(cn_op_filter(&r));
#endif
	}
	return cn_end(CN_DECLINE);
}

#endif
