package admin

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// segments say what the segments in braces of paths are: by the path, or else by the name.
var segments = map[string]string{
	"account":                   "The account's id or name.",
	"charge":                    "The id of a request or of its settlement.",
	"key":                       "The key's id.",
	"model":                     "The id of a model whose engine is upstream.",
	"module":                    "A digest, its first characters (at least 6), or name@version.",
	"/modules/{module}/enable":  "The name of a module of the program that is off by default.",
	"/modules/{module}/disable": "The name of a module of the program that is off by default.",
	"node":                      "The id of a live node.",
	"request":                   "The id of a request.",
	"slot": "chat, responses, billing, admission, rewrite, filter, a later place of one of these three such as filter.2, " +
		"or the protocol of a module with paths of its own.",
}

// parameter is one of the query of a verb.
type parameter struct {
	name   string
	schema object
	text   string
}

// Parameters of several verbs.
var (
	afterPage    = parameter{"after", anyText, "next of the page before."}
	afterRow     = parameter{"after", anyInteger, "next of the page before."}
	beforeRow    = parameter{"before", anyInteger, "next of the page before."}
	limitPage    = parameter{"limit", anyInteger, "1 to 1000, the default."}
	ofAccount    = parameter{"account", anyText, "Only of this account, by its id or name."}
	ofModel      = parameter{"model", anyText, "Only of this model."}
	sinceRow     = parameter{"since", anyTime, "Rows of that time and later."}
	ofAStatement = []parameter{
		afterRow,
		{"inputs", anyBoolean, "true: with what each charge was computed from."},
		{"key", anyText, "Only of this key, by its id."},
		{"kind", anyText, "Only topup, settlement or adjustment."},
		limitPage, ofModel,
		{"newest", anyBoolean, "Newest first; else oldest first."},
		sinceRow,
		{"until", anyTime, "Rows before it."},
	}
)

// queries are the query parameters of the verbs that have some, in the order of their names.
var queries = map[string][]parameter{
	"/accounts": {
		{"after", anyText, "Accounts whose name is above it: the last one of the page before."},
		{"limit", anyInteger, "1 to 1000; all without it."},
	},
	"/accounts/{account}/ledger": ofAStatement,
	"/accounts/{account}/usage": {
		afterPage,
		{"by", anyText, "What sums are told apart by: some of day, model, key, separated by commas."},
		limitPage,
		{"since", anyTime, "From the day of that time on, UTC."},
		{"until", anyTime, "To the day of that time, included."},
	},
	"/charges/{charge}": {
		{"inputs", anyBoolean, "true: with what each charge was computed from in place of its lines, and no module runs."},
	},
	"/requests": {
		ofAccount,
		{"id", anyText, "Only this one."},
		{"limit", anyInteger, "1 to 4096, the default."},
		ofModel,
		{"phase", anyText, "Only in this phase: admission, queue, prefill, decode, hold, paused, settlement or short."},
	},
	"/requests/past":  {ofAccount, beforeRow, {"id", anyText, "Only this one."}, limitPage, ofModel},
	"/audit":          {beforeRow, limitPage, {"operator", anyText, "Only of this operator."}},
	"/cluster/nodes":  {afterPage, limitPage},
	"/cluster/grants": {ofAccount, afterPage, limitPage, {"node", anyText, "Only of this node."}},
	"/why":            {{"seconds", anyInteger, "How long to watch, 1 to 30; 2 by default."}},
	"/cache":          {ofAccount, {"limit", anyInteger, "Most prefixes of a model, 1 to 100, the default."}, ofModel},
	"/logs": {
		ofAccount,
		{"after", anyInteger, "Only lines behind the one of this number, and the first of them instead of the latest."},
		{"kind", anyText, "Only lines of this message, such as request or admin."},
		{"level", anyText, "The least severe one: debug, info, warn or error."},
		limitPage,
	},
	"/cache/why": {{"first", anyText, "A request."}, {"second", anyText, "Another one, before or after it."}},
	"/statement": append([]parameter{{"account", anyText, "The account's id or name."}}, ofAStatement...),
	"/ledger":    {{"after", anyInteger, "Rows with a larger id: the last one of the page before."}, limitPage, sinceRow},
}

// parameters are those of the query of a verb.
func (r route) parameters() []parameter {
	if r.method != http.MethodGet {
		return nil
	}
	return queries[strings.TrimPrefix(r.path, Root)]
}

// parseQuery reads a verb's query, which has no other parameters than the verb's,
// each at most once: one that is misspelled would otherwise be taken for absent.
func parseQuery(verb route, query []byte) (url.Values, error) {
	parsed, err := url.ParseQuery(string(query))
	if err != nil {
		return nil, invalid(err)
	}
	var known []string
	for _, p := range verb.parameters() {
		known = append(known, p.name)
	}
	for _, name := range slices.Sorted(maps.Keys(parsed)) {
		switch {
		case len(known) == 0:
			return nil, invalid(fmt.Errorf(unknownParameter+"%q: this verb has none", clip(name)))
		case !slices.Contains(known, name):
			return nil, invalid(fmt.Errorf(unknownParameter+"%q: want %s", clip(name), strings.Join(known, ", ")))
		case len(parsed[name]) > 1:
			return nil, invalid(fmt.Errorf("query parameter %s is there twice", name))
		}
	}
	return parsed, nil
}
