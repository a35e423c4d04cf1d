package main_test

import (
	"slices"
	"strings"
	"unicode"
)

// term is a word that names must not use, and what they say instead.
type term struct {
	word    string   // one word of a name, its plural too; a star at its end stands for any ending
	folders []string // where the rule holds; nil is everywhere
	except  []string // folders and files below those where it does not
	after   string   // the word may follow this one: requests are in flight
	coined  bool     // it is nobody's English here, so comments must not have it either
	verb    bool     // it is a verb as well, so names of tests may have it
	instead string
}

// vocabulary is the glossary's other side. The config key "speculation", metric
// names and whatever else leaves the program keep their words: those are strings.
var vocabulary = []term{
	{word: "flight", after: "in", coined: true, instead: "a live request is a request, a transaction under way a commit"},
	{word: "fly", instead: "a transaction under way is a commit"},
	{word: "flying", instead: "a transaction under way is a commit"},
	{word: "desk", coined: true, instead: "the limiter's numbers of one account are its state"},
	{word: "hold", folders: []string{"engine", "extensions"}, verb: true,
		instead: "a hold is the ledger row that reserves money; pages have owners and references"},
	{word: "snapshot", folders: []string{"actors", "extensions", "wasm"},
		instead: "a snapshot is a saved recurrent state; a copy of a limiter's numbers is counters"},
	{word: "generation", folders: []string{"actors", "bench", "engine"},
		instead: "a generation is a loaded version of a module; a life of an actor or step loop is its incarnation"},
	{word: "turn", folders: []string{"extensions", "actors/limiter", "actors/batcher", "actors/ledger"},
		except: []string{"extensions/probe", "extensions/shipped_bench_test.go"}, verb: true,
		instead: "a turn is one exchange of a conversation; who asks for processor time waits for admission"},
	{word: "ahead", folders: []string{"engine"}, instead: "tokens are drafted, memory is prefetched"},
	{word: "lookahead", folders: []string{"engine/kernel"}, instead: "memory is prefetched"},
	{word: "guess*", instead: "draft"},
	{word: "hope*", instead: "draft, or the condition that is meant"},
	{word: "speculat*", except: []string{"node/config"}, instead: "draft"},
	{word: "deaf", coined: true, instead: "noObserver"},
	{word: "patient*", instead: "retry"},
	{word: "shelf", coined: true, instead: "the cell that keeps a pin is a pin cell"},
	{word: "shelves", coined: true, instead: "cells that keep pins are pin cells"},
	{word: "duty", instead: "settlement"},
	{word: "duties", instead: "settlements"},
	{word: "alike", instead: "equal"},
	{word: "lay", instead: "assemble"},
	{word: "study", instead: "report"},
	{word: "studies", instead: "reports"},
	{word: "lab", instead: "sandbox"},
	{word: "shared", folders: []string{"actors", "extensions"}, verb: true,
		instead: "what the nodes of a cluster have in common is the cluster's; a slot's part of the processors is its quota"},
	{word: "frame", folders: []string{"engine/output"}, instead: "what stands around calls are delimiters; a frame is an event on the wire"},
	{word: "parse", folders: []string{"engine/parse"}, instead: "what reads the model's output is engine/output"},
}

// rules says whether the term is ruled out in the file at path.
func (w term) rules(path string) bool {
	under := func(folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }
	return (w.folders == nil || slices.ContainsFunc(w.folders, under)) && !slices.ContainsFunc(w.except, under)
}

// in says whether a name uses the term.
func (w term) in(name string) bool {
	all := words(name)
	for i, word := range all {
		if w.matches(word) && (w.after == "" || i == 0 || all[i-1] != w.after) {
			return true
		}
	}
	return false
}

func (w term) matches(word string) bool {
	if stem, open := strings.CutSuffix(w.word, "*"); open {
		return strings.HasPrefix(word, stem)
	}
	return word == w.word || word == w.word+"s"
}

// words takes a name apart where its case changes and at what is no letter: the
// words of "KVPagesMax" are kv, pages and max.
func words(name string) []string {
	var all []string
	runes := []rune(name)
	begin := 0
	cut := func(end int) {
		if end > begin {
			all = append(all, strings.ToLower(string(runes[begin:end])))
		}
		begin = end
	}
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			cut(i)
			begin = i + 1
		case unicode.IsUpper(r) && i > 0:
			ends := i+1 < len(runes) && unicode.IsLower(runes[i+1]) // the last capital begins the next word
			if !unicode.IsUpper(runes[i-1]) || ends {
				cut(i)
			}
		}
	}
	cut(len(runes))
	if all == nil {
		return []string{""}
	}
	return all
}

// spellings are beginnings of words as British spelling has them, and what
// American spelling makes of the beginning.
var spellings = map[string]string{
	"armour": "armor", "behaviour": "behavior", "colour": "color", "endeavour": "endeavor", "favour": "favor", "flavour": "flavor",
	"harbour": "harbor", "honour": "honor", "humour": "humor", "labour": "labor", "neighbour": "neighbor", "rumour": "rumor",
	"analyse": "analyze", "analysing": "analyzing", "authoris": "authoriz", "categoris": "categoriz", "characterise": "characterize", "characterising": "characterizing",
	"customis": "customiz", "emphasise": "emphasize", "finalis": "finaliz", "generalis": "generaliz", "initialis": "initializ",
	"localis": "localiz", "materialis": "materializ", "maximis": "maximiz", "memoris": "memoriz", "minimis": "minimiz",
	"normalis": "normaliz", "optimise": "optimize", "optimisation": "optimization", "optimising": "optimizing", "organis": "organiz",
	"parallelis": "paralleliz", "penalis": "penaliz", "prioritis": "prioritiz", "quantis": "quantiz", "randomis": "randomiz",
	"realise": "realize", "realising": "realizing", "recognis": "recogniz", "serialis": "serializ", "specialis": "specializ",
	"stabilis": "stabiliz", "standardis": "standardiz", "summaris": "summariz", "symbolis": "symboliz", "synchronis": "synchroniz",
	"tokenis": "tokeniz", "unrecognis": "unrecogniz", "utilis": "utiliz", "vectoris": "vectoriz", "visualis": "visualiz",
	"artefact": "artifact", "catalogue": "catalog", "centre": "center", "centred": "centered", "centring": "centering", "defence": "defense", "fibre": "fiber",
	"fulfil": "fulfill", "grey": "gray", "judgement": "judgment", "labell": "label", "learnt": "learned", "levelled": "leveled",
	"licence": "license", "marshall": "marshal", "metre": "meter", "modelled": "modeled", "modelling": "modeling", "offence": "offense",
	"practise": "practice", "pretence": "pretense", "programme": "program", "sceptic": "skeptic", "signall": "signal",
	"spelt": "spelled", "travell": "travel", "whilst": "while",
}

// fine are words that only look like those.
var fine = []string{"fulfill", "fulfilled", "fulfilling", "fulfills", "programmed", "programmer", "programmers"}

// british says how American spelling writes the beginning of a lower-case word,
// if that is another one.
func british(word string) (string, bool) {
	for n := len(word); n > 3; n-- {
		if american, ok := spellings[word[:n]]; ok && !slices.Contains(fine, word) {
			return american + word[n:], true
		}
	}
	return "", false
}
