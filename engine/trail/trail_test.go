package trail

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func prompt(parts ...int) (tokens []int32) { // length, first token, and so on
	for i := 0; i < len(parts); i += 2 {
		for k := range parts[i] {
			tokens = append(tokens, int32(parts[i+1]+k))
		}
	}
	return tokens
}

// TestCompare goes through the limits: each is found where it alone holds.
func TestCompare(t *testing.T) {
	began := time.Unix(1000, 0)
	kept := func(cached int) func(a, b *Trail) {
		return func(a, b *Trail) { a.States, b.Recurrent, b.Cached = []int{20, 52}, true, cached }
	}
	for _, c := range []struct {
		name      string
		a, b      []int32
		change    func(a, b *Trail)
		token     int
		limit     Limit
		equal     int
		shareable int
		says      string
	}{
		{"all was shared", prompt(70, 0), prompt(70, 0, 9, 500), func(_, b *Trail) { b.Cached = 64 }, 70, LimitNone, 70, 64, "shorter prompt"},
		{"evicted", prompt(70, 0), prompt(70, 0), nil, -1, LimitEvicted, 70, 64, "evicted"},
		{"parted", prompt(70, 0), prompt(40, 0, 30, 900), func(_, b *Trail) { b.Cached = 32 }, 40, LimitNone, 40, 32, "up to token 40"},
		{"parted somewhere", prompt(70, 0), prompt(40, 0, 30, 900), func(_, b *Trail) { b.Cached = 32 }, -1, LimitNone, 32, 32, "before token 49"},
		{"parted behind the last page", prompt(70, 0), prompt(66, 0, 4, 900), func(_, b *Trail) { b.Cached = 64 }, -1,
			LimitNone, 64, 64, "before token 81"},
		{"parted on a page", prompt(70, 0), prompt(40, 0, 30, 900), nil, 40, LimitEvicted, 40, 32, "in the next, on page 3"},
		{"a state behind where they parted", prompt(70, 0), prompt(40, 0, 30, 900), kept(16), 40, LimitSnapshot, 40, 32, "after token 16"},
		{"short", prompt(70, 0), prompt(10, 0, 30, 900), nil, -1, LimitShort, 0, 0, "whole pages"},
		{"one token is left to compute", prompt(16, 0), prompt(16, 0), nil, -1, LimitShort, 16, 0, "last token"},
		{"models", prompt(70, 0), prompt(70, 0), func(_, b *Trail) { b.Model = "n" }, -1, LimitModel, 0, 0, "different models"},
		{"accounts", prompt(70, 0), prompt(70, 0), func(_, b *Trail) { b.Partition = "bob" }, -1, LimitAccount, 70, 64, "accounts"},
		{"reloaded", prompt(70, 0), prompt(70, 0), func(_, b *Trail) { b.Loaded++ }, -1, LimitReloaded, 70, 64, "restarted"},
		{"too early", prompt(70, 0), prompt(70, 0), func(a, _ *Trail) { a.computed.Store(nil) }, -1, LimitEarly, 70, 64, "before"},
		{"no state", prompt(70, 0), prompt(70, 0), func(_, b *Trail) { b.Recurrent, b.Branch, b.Cached = true, 64, 32 }, -1, LimitSnapshot,
			70, 64, "deepest"},
		{"no state was kept", prompt(70, 0), prompt(70, 0), kept(48), -1, LimitSnapshot, 70, 64, "after token 48"},
		{"its state is gone", prompt(70, 0), prompt(70, 0), kept(16), -1, LimitEvicted, 70, 64, "evicted"},
	} {
		l := NewLog(1 << 20)
		a := &Trail{Request: "a", Partition: "alice", Model: "m", PageSize: 16, Matched: began}
		b := &Trail{Request: "b", Partition: "alice", Model: "m", PageSize: 16, Matched: began.Add(time.Minute)}
		l.Add(a, c.a)
		l.Add(b, c.b)
		a.Computed(began.Add(time.Second))
		if c.change != nil {
			c.change(a, b)
		}
		for _, v := range []Verdict{Compare(a, b, c.token), Compare(b, a, c.token)} {
			if v.Limit != c.limit || v.Equal != c.equal || v.Shareable != c.shareable || v.Earlier != a {
				t.Errorf("%s: %+v", c.name, v)
			}
			if s := v.Sentence(); !strings.Contains(s, c.says) {
				t.Errorf("%s: %s", c.name, s)
			}
		}
	}
}

// TestLogIsBounded: the oldest trails go; those that are kept are within the bytes.
func TestLogIsBounded(t *testing.T) {
	l := NewLog(20_000)
	for i := range 1000 {
		l.Add(&Trail{Request: fmt.Sprint(i), PageSize: 16}, prompt(400, i))
	}
	bytes := 0
	for _, one := range l.queue {
		bytes += one.bytes()
	}
	if bytes != l.bytes || bytes > 20_000 || len(l.queue) != len(l.byID) || len(l.queue) < 20 {
		t.Errorf("%d trails, %d by id, %d bytes, counted %d", len(l.queue), len(l.byID), bytes, l.bytes)
	}
	if l.Find("0") != nil || l.Find("999") == nil {
		t.Error("the newest is gone or the oldest there")
	}
}
