package main

// wire is how a field is written. All numbers are little endian.
type wire int

const (
	u8 wire = iota
	i8
	u16
	u32
	i64
	boolean  // u8, 0 or 1
	flag     // i64, 0 or 1
	text     // length u32 and that many bytes, UTF-8
	section  // the same of any bytes
	rest     // text to the end of the record
	tail     // any bytes to the end of the record
	unit     // text of 16 bytes, padded with zeros
	nested   // a record in place
	pairs    // count u16, and that many records
	elements // count u32, and that many records
	numbers  // count u32, and that many i64, of counters
)

// field is one field of a record. Since is the minor version of the ABI that brought
// it: a module whose manifest says less is given the record without it.
type field struct {
	name  string
	wire  wire
	doc   string
	of    string // of a nested record or a list: which; of a number that is enumerated: of which list
	since int
	// counted fields are only written by modules with counters: where the record's last
	// list is not empty.
	counted bool
	// when is the number of the record's first field with which the field is written.
	when string
	flat bool // the kits have the nested record's fields as fields of this one
}

// layout is one form of a record: its tag, the minor version that brought it, and who is
// given it instead of the first one; nobody named is every module of that version.
type layout struct {
	tag   string
	since int
	whose string
}

// record is what crosses the boundary in one piece, or a part of it. One that has a
// layout without a tag begins with a time, and no time is a tag.
type record struct {
	name    string
	doc     string
	output  bool // a guest writes it
	pieces  bool // the kits write it piece by piece, so it is no type of theirs
	layouts []layout
	fields  []field
}

// entry is one number of an enumeration.
type entry struct {
	name   string
	number int
	doc    string
	// of reasons: what its numbers and its message are
	numbers, message string
}

// enumeration is a list of numbers that are never used twice.
type enumeration struct {
	name    string
	wire    wire
	prefix  string // of the names in C
	doc     string
	entries []entry
}

// operation is what call does.
type operation struct {
	name   string
	number int
	kind   string // of the modules that have it
	input  string // a record
	output string // a record, or what is written in one piece
}

var operations = []operation{
	{"request", 1, "translator", "request_input", "translated"},
	{"events", 2, "translator", "events_input", "written"},
	{"response", 3, "translator", "response_input", "body"},
	{"error", 4, "translator", "error_input", "body or bytes"},
	{"models", 5, "translator", "models_input", "body"},
	{"count", 6, "translator", "count_input", "body"},
	{"quote", 16, "billing", "quote_input", "quote"},
	{"charge", 17, "billing", "charge_input", "charge"},
	{"decide", 32, "admission", "admission_input", "decision"},
	{"rewrite", 48, "rewrite", "rewrite_input", "body, or nothing where it stays as it is"},
	{"filter", 64, "filter", "filter_input", "filtered"},
}

var records = []record{
	{name: "facts", doc: "what the node knows of a request, the same in every call of it", fields: []field{
		{name: "created", wire: i64, doc: "when the request came, Unix seconds"},
		{name: "stream", wire: boolean, doc: "the answer is a stream; false in request"},
		{name: "id", wire: text, doc: "the request's own part of an id, [a-z0-9]; add a prefix such as chatcmpl-"},
		{name: "model", wire: text, doc: "the model that answers; empty in request"},
	}},
	{name: "pair", doc: "one named value of a request", fields: []field{
		{name: "name", wire: text},
		{name: "value", wire: text},
	}},
	{name: "route", doc: "how a request reached a module with routes", fields: []field{
		{name: "index", wire: u16, doc: "of the manifest's routes"},
		{name: "params", wire: pairs, of: "pair", doc: "parameters of the path, in its order, unescaped"},
		{name: "query", wire: pairs, of: "pair", doc: "the parameters that the manifest names, unescaped"},
		{name: "headers", wire: pairs, of: "pair", doc: "the headers that the manifest names, by its spelling"},
	}},
	{name: "model", doc: "one model in a listing, which the request's key may use", fields: []field{
		{name: "created", wire: i64, doc: "Unix seconds"},
		{name: "context", wire: i64, doc: "tokens of prompt and answer together"},
		{name: "output", wire: i64, doc: "the most tokens of an answer"},
		{name: "id", wire: text},
		{name: "name", wire: text, doc: "for people"},
	}},
	{name: "prices", doc: "nano-dollars for a token", fields: []field{
		{name: "input", wire: i64, doc: "one of the prompt that was computed"},
		{name: "cached", wire: i64, doc: "one of the prompt that came from the prefix cache"},
		{name: "output", wire: i64, doc: "one that was produced, reasoning included"},
	}},
	{name: "usage", doc: "what a request used, in tokens", fields: []field{
		{name: "uncached", wire: i64, doc: "of the prompt, computed for this request"},
		{name: "cache_read", wire: i64, doc: "of the prompt, from the prefix cache"},
		{name: "cache_write", wire: i64, doc: "of the prompt, billed for writing the cache"},
		{name: "output", wire: i64, doc: "produced, reasoning included"},
		{name: "reasoning", wire: i64, doc: "a part of output"},
	}},
	{name: "elapsed", doc: "how long an answer took, in nanoseconds", fields: []field{
		{name: "total", wire: i64, doc: "from the request's last byte"},
		{name: "load", wire: i64, doc: "of the model: 0, since it is in memory"},
		{name: "prompt", wire: i64, doc: "until the first token"},
		{name: "generation", wire: i64, doc: "from the first token on"},
	}},
	{name: "detail", doc: "a failure as data", fields: []field{
		{name: "reason", wire: u16, of: "reason", doc: "what is wrong", since: 1},
		{name: "prompt", wire: i64, doc: "the numbers of the reason", since: 1},
		{name: "value", wire: i64, since: 1},
		{name: "bound", wire: i64, since: 1},
	}},
	{name: "counters", doc: "what the node counts; a limit of 0 is none", fields: []field{
		{name: "account_requests", wire: i64, doc: "of the account, running now"},
		{name: "account_requests_max", wire: i64},
		{name: "tokens_remaining", wire: i64, doc: "of the account's tokens per minute; may be negative"},
		{name: "tokens_per_minute", wire: i64},
		{name: "available", wire: i64, doc: "nano-dollars without open holds; means nothing with unlimited"},
		{name: "unlimited", wire: flag, doc: "the account needs no money"},
		{name: "node_requests", wire: i64, doc: "running or waiting on the node"},
		{name: "node_requests_max", wire: i64},
		{name: "model_queued", wire: i64, doc: "requests that wait for their first step on the model", since: 1},
		{name: "model_queued_max", wire: i64, doc: "more are refused", since: 1},
		{name: "model_wait_ms", wire: i64, doc: "until one that comes now begins", since: 1},
		{name: "model_pages_used", wire: i64, doc: "pages of the cache that requests hold", since: 1},
		{name: "model_pages", wire: i64, doc: "all pages", since: 1},
	}},
	{name: "line", doc: "one item of a charge", output: true, fields: []field{
		{name: "unit", wire: unit, doc: "such as input, cached_input, output"},
		{name: "tokens", wire: i64},
		{name: "price", wire: i64, doc: "of one token, for people"},
		{name: "amount", wire: i64, doc: "nano-dollars"},
	}},
	{name: "counter", doc: "what a quote or a decision says of one counter", output: true, fields: []field{
		{name: "limit", wire: i64, doc: "what the account may take of it in its period"},
		{name: "most", wire: i64, doc: "what the request may take of that"},
	}},

	{name: "request_input", doc: "a body of the module's protocol",
		layouts: []layout{{"", 0, ""}, {"request\x02", 1, "a module with routes"}},
		fields: []field{
			{name: "facts", wire: nested, of: "facts"},
			{name: "route", wire: nested, of: "route", doc: "given to modules with routes", since: 1},
			{name: "body", wire: tail},
		}},
	{name: "events_input", doc: "the next event group of a stream", layouts: []layout{{"", 0, ""}}, fields: []field{
		{name: "facts", wire: nested, of: "facts"},
		{name: "state", wire: section, doc: "what the last group's call gave; empty at first"},
		{name: "kept", wire: section, doc: "what request kept, in the groups that hold the start or the end"},
		{name: "history", wire: section, doc: "frames of the answer so far, if the manifest asks for it"},
		{name: "events", wire: tail, doc: "frames"},
	}},
	{name: "response_input", doc: "a whole answer that is not streamed", layouts: []layout{{"", 0, ""}}, fields: []field{
		{name: "facts", wire: nested, of: "facts"},
		{name: "kept", wire: section, doc: "what request kept"},
		{name: "events", wire: tail, doc: "frames with one delta a block"},
	}},
	{name: "error_input", doc: "a failure that the client is told", layouts: []layout{{"", 0, ""}, {"error/2\x00", 1, ""}}, fields: []field{
		{name: "facts", wire: nested, of: "facts"},
		{name: "state", wire: section, doc: "as in events; empty when nothing was written"},
		{name: "kept", wire: section, doc: "empty when the request was not translated"},
		{name: "history", wire: section, doc: "frames of the answer so far, if the manifest asks for it"},
		{name: "status", wire: u16, doc: "of HTTP, which goes with a body"},
		{name: "kind", wire: u16, of: "kind"},
		{name: "detail", wire: nested, of: "detail", flat: true, since: 1},
		{name: "param", wire: text, doc: "path of the field at fault, may be empty"},
		{name: "msg", wire: rest, doc: "for the client, not escaped"},
	}},
	{name: "models_input", doc: "a question for the node's models", layouts: []layout{{"models/1", 1, ""}}, fields: []field{
		{name: "facts", wire: nested, of: "facts"},
		{name: "route", wire: nested, of: "route"},
		{name: "models", wire: elements, of: "model", doc: "by id"},
		{name: "body", wire: tail, doc: "of a POST"},
	}},
	{name: "count_input", doc: "the tokens of a prompt that request translated", layouts: []layout{{"count/1\x00", 1, ""}}, fields: []field{
		{name: "facts", wire: nested, of: "facts"},
		{name: "tokens", wire: i64},
		{name: "kept", wire: section, doc: "what request kept"},
	}},
	{name: "quote_input", doc: "the most that a request may use", layouts: []layout{{"quote/1\x00", 0, ""}}, fields: []field{
		{name: "prices", wire: nested, of: "prices"},
		{name: "input", wire: i64, doc: "tokens of the prompt, of which any part may come from the cache"},
		{name: "output_max", wire: i64},
		{name: "at", wire: i64, doc: "when the request came, Unix seconds"},
		{name: "model", wire: text},
		{name: "account", wire: rest},
	}},
	{name: "charge_input", doc: "what a request used",
		layouts: []layout{{"charge/2", 0, ""}, {"charge/3", 1, "a module with counters"}}, fields: []field{
			{name: "prices", wire: nested, of: "prices"},
			{name: "usage", wire: nested, of: "usage"},
			{name: "at", wire: i64, doc: "as in quote"},
			{name: "held", wire: numbers, doc: "what the request has of each counter", since: 1},
			{name: "model", wire: text},
			{name: "account", wire: rest},
		}},
	{name: "admission_input", doc: "a request that passed every check but the account's limits",
		layouts: []layout{{"decide/1", 0, ""}, {"decide/2", 1, ""}}, fields: []field{
			{name: "at", wire: i64, doc: "Unix seconds"},
			{name: "prompt_tokens", wire: i64},
			{name: "output_max", wire: i64},
			{name: "stream", wire: flag},
			{name: "counters", wire: nested, of: "counters", flat: true},
			{name: "account", wire: text},
			{name: "key", wire: text, doc: "the key's id, never the secret"},
			{name: "model", wire: text},
			{name: "protocol", wire: rest, doc: "messages, chat, responses or that of a module"},
		}},

	{name: "rewrite_input", doc: "the messages body of a request, before anything is made of it",
		layouts: []layout{{"rewrit/1", 1, ""}}, fields: []field{
			{name: "at", wire: i64, doc: "Unix seconds"},
			{name: "counting", wire: boolean, doc: "only its tokens are counted"},
			{name: "account", wire: text},
			{name: "key", wire: text, doc: "the key's id, never the secret"},
			{name: "protocol", wire: text, doc: "messages, chat, responses or that of a module"},
			{name: "body", wire: tail, doc: "JSON"},
		}},
	{name: "filter_input", doc: "the next piece of a block", layouts: []layout{{"filter/1", 1, ""}}, fields: []field{
		{name: "facts", wire: nested, of: "facts"},
		{name: "block", wire: u8, of: "block", doc: "thinking or text"},
		{name: "last", wire: boolean, doc: "the block ends with this piece: nothing may be held back"},
		{name: "state", wire: section, doc: "what the piece before left"},
		{name: "text", wire: rest, doc: "UTF-8, not escaped"},
	}},

	{name: "translated", output: true, pieces: true, doc: "what request gives", fields: []field{
		{name: "kept", wire: section, doc: "comes back with the answer's calls"},
		{name: "body", wire: tail, doc: "of the messages protocol"},
	}},
	{name: "written", output: true, pieces: true, doc: "what events gives", fields: []field{
		{name: "state", wire: section, doc: "comes back with the next group"},
		{name: "bytes", wire: tail, doc: "for the client"},
	}},
	{name: "filtered", output: true, pieces: true, doc: "what filter gives", fields: []field{
		{name: "state", wire: section, doc: "at most 256 bytes; comes back with the next piece"},
		{name: "text", wire: tail, doc: "what may be shown"},
	}},
	{name: "quote", output: true, doc: "no charge is above upper; an account that has less than minimum is refused", fields: []field{
		{name: "upper", wire: i64},
		{name: "minimum", wire: i64},
		{name: "covered_upper", wire: i64, doc: "the bounds if the request gets the most of every counter", counted: true},
		{name: "covered_minimum", wire: i64, counted: true},
		{name: "takes", wire: elements, of: "counter", doc: "in the order of the manifest", counted: true},
	}},
	{name: "charge", output: true, doc: "what a request costs", fields: []field{
		{name: "total", wire: i64, doc: "the lines' amounts together"},
		{name: "tier", wire: u32, doc: "which rates applied; 1 is plain"},
		{name: "lines", wire: elements, of: "line", doc: "at most 16"},
		{name: "taken", wire: numbers, doc: "what is used up of held; the rest goes back", counted: true},
	}},
	{name: "decision", output: true, doc: "what an admission policy says", fields: []field{
		{name: "verdict", wire: u8, of: "verdict"},
		{name: "priority", wire: i8, doc: "of a request that waits: higher goes first, 0 is what others have"},
		{name: "kind", wire: u16, of: "kind", doc: "of a denial"},
		{name: "retry_after_ms", wire: u32, doc: "of a denial; 0 is not said"},
		{name: "takes", wire: elements, of: "counter", doc: "of reserve: what it takes of the manifest's counters, in their order",
			when: "reserve"},
		{name: "msg", wire: rest, doc: "of a denial, for the client"},
	}},
	{name: "refusal", output: true, pieces: true, doc: "what the client, or the operator, did wrong", fields: []field{
		{name: "param", wire: text, doc: "path of the field, may be empty"},
		{name: "msg", wire: rest},
	}},
}
