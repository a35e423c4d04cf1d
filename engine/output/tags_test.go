package output

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestTags: what is read of <think> is read of the tags of Mistral, wherever the output is cut, and
// <think> is text there.
func TestTags(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	square := strings.NewReplacer("<think>", mistralTags.Open, "</think>", mistralTags.Close)
	changed := 0
	for _, s := range samples {
		in, want := square.Replace(s.in), strings.ReplaceAll(square.Replace(s.want), "§", callOpen)
		if in == s.in {
			continue
		}
		changed++
		s.options.Tags = mistralTags
		for range 20 {
			if got := parse(t, s.options, s.truncated, randomCut(rng, in)...); got != want {
				t.Fatalf("%s:\n got %s\nwant %s", s.name, got, want)
			}
		}
	}
	if changed == 0 {
		t.Fatal("no samples")
	}
	o := Options{Thinking: true, Tags: mistralTags}
	want := "thinking  \"<think>a</think>[/THINK b\"\ntext  \"<think>c\"\nend_turn \"\" done=false"
	for n := range 20 {
		in := "[THINK]\n<think>a</think>[/THINK b[/THINK]<think>c"
		if got := parse(t, o, false, in[:n], in[n:]); got != want {
			t.Errorf("cut at %d:\n got %s\nwant %s", n, got, want)
		}
	}
}

// TestTagsOf: a template that shows [THINK] has it, but where it shows </think> too.
func TestTagsOf(t *testing.T) {
	for source, usual := range map[string]bool{
		"":                         true,
		"<think></think>":          true,
		"a [THINK]b[/THINK]":       false,
		"[THINK] {{ '</think>' }}": true,
	} {
		if tags := TagsOf(source); tags.Usual() != usual {
			t.Errorf("%q: %+v", source, tags)
		}
	}
}

// TestTagsTaken: the token that ends thinking is its text within thinking, the one that opens it at the start, and both are
// nothing elsewhere.
func TestTagsTaken(t *testing.T) {
	p := New(Options{Tags: mistralTags})
	if p.Takes(mistralTags.Close) || !p.Takes(mistralTags.Open) {
		t.Error("a start that is not in thinking")
	}
	p = New(Options{Thinking: true, Tags: mistralTags})
	for i, want := range []bool{true, true, false, false} {
		ends, opens := p.Takes(mistralTags.Close), p.Takes(mistralTags.Open)
		if ends != want || opens != (i == 0) {
			t.Errorf("step %d: it ends %v, opens %v", i, ends, opens)
		}
		p.Feed(nil, []string{"hm", mistralTags.Close, "a", ""}[i])
	}
}
