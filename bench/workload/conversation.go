package workload

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Shape says what conversations are made of. Every conversation follows from
// the seed and its number alone, so that two runs of one seed ask the same.
type Shape struct {
	Seed   uint64
	Input  Lengths // of each turn's own prompt, what is shared or repeated not counted
	Output Lengths // most tokens of each answer
	// Pairs, if there are any, are drawn from instead of Input and Output.
	Pairs []Pair
	// PrefixTokens is the length of the system prompt, 0 for none. It is the same
	// in PrefixGroup conversations that follow each other, in all for 0.
	PrefixTokens, PrefixGroup int
	// Task, if not empty, ends each prompt; no length counts it. It is the inside of a JSON string.
	Task string
	// Turns is how many there are in a conversation, at least 1; each repeats
	// those before it with their answers.
	Turns int
	// Think is the pause before each further turn; ThinkRandom makes it
	// exponential with that mean.
	Think       time.Duration
	ThinkRandom bool
	// Keys is how many keys take turns, conversation by conversation; at least 1.
	Keys int
	// Size turns tokens into words.
	Size Calibration
}

// Calibration says how many tokens the server counts for a prompt of words.
type Calibration struct {
	PerWord  float64 `json:"tokens_per_word"`
	Overhead float64 `json:"template_tokens"` // around a single user message
}

// Words returns how many words make a prompt of that many tokens, at least one.
// overhead is what the template adds to it.
func (c Calibration) Words(tokens int, overhead float64) int {
	return max(1, int((float64(tokens)-overhead)/c.PerWord+0.5))
}

// Fit finds a calibration from the counts of two prompts.
func Fit(words1, tokens1, words2, tokens2 int) (Calibration, error) {
	c := Calibration{PerWord: float64(tokens2-tokens1) / float64(words2-words1)}
	c.Overhead = max(0, float64(tokens1)-c.PerWord*float64(words1))
	if c.PerWord < 0.05 || c.PerWord > 50 {
		return c, fmt.Errorf("the server counts %d tokens in %d words and %d in %d: no number of tokens per word fits",
			tokens1, words1, tokens2, words2)
	}
	return c, nil
}

// Ask is one turn that is to be sent.
type Ask struct {
	Prompt    []byte // inside of a JSON string
	OutputMax int
	Think     time.Duration // to wait before it, 0 for the first
}

// Conversation is one client's, from its first turn to its last.
type Conversation struct {
	Key     int
	System  []byte // empty for none
	Session string
	shape   *Shape
	random  *rand.Rand
	turn    int
}

// Streams of random numbers that must not follow from each other.
const (
	streamConversation = iota + 1
	streamPrefix
	streamSample
	StreamArrivals
)

// Random returns the numbers of one purpose.
func Random(seed, stream, number uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream<<56^number))
}

// Conversation returns one by its number.
func (s *Shape) Conversation(number int) *Conversation {
	c := &Conversation{Key: number % max(1, s.Keys), shape: s, random: Random(s.Seed, streamConversation, uint64(number))}
	c.Session = fmt.Sprintf("corebench-%x-%d", s.Seed, number)
	if s.PrefixTokens > 0 {
		group := 0
		if s.PrefixGroup > 0 {
			group = number / s.PrefixGroup
		}
		c.System = AppendWords(nil, Random(s.Seed, streamPrefix, uint64(group)), s.Size.Words(s.PrefixTokens, 0))
	}
	return c
}

// Next returns the next turn; false when there are no more.
func (c *Conversation) Next() (Ask, bool) {
	if c.turn >= max(1, c.shape.Turns) {
		return Ask{}, false
	}
	s, r := c.shape, c.random
	in, out := 0, 0
	if len(s.Pairs) > 0 {
		p := s.Pairs[r.IntN(len(s.Pairs))]
		in, out = p.Input, p.Output
	} else {
		in, out = s.Input.Draw(r), s.Output.Draw(r)
	}
	a := Ask{OutputMax: out}
	overhead := s.Size.Overhead
	if c.turn > 0 {
		overhead, a.Think = overhead/2, s.Think // a later turn has its own marks, not the begin
		if s.ThinkRandom {
			a.Think = time.Duration(float64(s.Think) * r.ExpFloat64())
		}
	}
	a.Prompt = append(AppendWords(nil, r, s.Size.Words(in, overhead)), s.Task...)
	c.turn++
	return a, true
}

// Sample is a prompt to calibrate with, unlike those of any conversation.
func Sample(seed uint64, words int) []byte {
	return AppendWords(nil, Random(seed, streamSample, uint64(words)), words)
}

// words are short, common and English, so that usual vocabularies have a token
// for each with its space: then lengths come out exactly. Two prompts share
// their first n words once in 256 to the power of n.
var words = [...]string{
	"the", "of", "and", "to", "in", "is", "you", "that", "it", "he", "was", "for", "on", "are", "as", "with", "his",
	"they", "be", "at", "one", "have", "this", "from", "or", "had", "by", "not", "word", "but", "what", "some", "we",
	"can", "out", "other", "were", "all", "there", "when", "up", "use", "your", "how", "said", "an", "each", "she",
	"which", "do", "their", "time", "if", "will", "way", "about", "many", "then", "them", "write", "would", "like",
	"so", "these", "her", "long", "make", "thing", "see", "him", "two", "has", "look", "more", "day", "could", "go",
	"come", "did", "number", "sound", "no", "most", "people", "my", "over", "know", "water", "than", "call", "first",
	"who", "may", "down", "side", "been", "now", "find", "any", "new", "work", "part", "take", "get", "place",
	"made", "live", "where", "after", "back", "little", "only", "round", "man", "year", "came", "show", "every",
	"good", "me", "give", "our", "under", "name", "very", "through", "just", "form", "great", "think", "say", "help",
	"low", "line", "before", "turn", "cause", "same", "mean", "move", "right", "boy", "old", "too", "does", "tell",
	"set", "three", "want", "air", "well", "also", "play", "small", "end", "put", "home", "read", "hand", "port",
	"large", "add", "even", "land", "here", "must", "big", "high", "such", "follow", "act", "why", "ask", "men",
	"change", "went", "light", "kind", "off", "need", "house", "picture", "try", "us", "again", "animal", "point",
	"mother", "world", "near", "build", "self", "earth", "father", "head", "stand", "own", "page", "should",
	"country", "found", "answer", "school", "grow", "study", "still", "learn", "plant", "cover", "food", "sun",
	"four", "state", "keep", "eye", "never", "last", "let", "thought", "city", "tree", "cross", "farm", "hard",
	"start", "might", "story", "saw", "far", "sea", "draw", "left", "late", "run", "while", "press", "close",
	"night", "real", "life", "few", "north", "open", "seem", "together", "next", "white", "children", "begin", "got",
	"walk", "example", "ease", "paper", "group", "always",
}

// AppendWords writes n words behind dst, each with a space before it, the first
// without.
func AppendWords(dst []byte, r *rand.Rand, n int) []byte {
	var bits uint64
	for i := range n {
		if i%8 == 0 {
			bits = r.Uint64()
		}
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, words[byte(bits)]...)
		bits >>= 8
	}
	return dst
}
