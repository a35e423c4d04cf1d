// Package profile says which stacks of a CPU profile the time went to.
package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Sample is one stack and the CPU time seen in it.
type Sample struct {
	Stack []string // function names, the innermost first
	Nanos int64
}

// Parse reads a CPU profile, whose samples have two values: how often each was
// seen and the nanoseconds that this stands for.
func Parse(packed []byte) ([]Sample, error) {
	p, err := profile.ParseData(packed)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	var all []Sample
	for _, s := range p.Sample {
		if len(s.Value) != 2 {
			return nil, fmt.Errorf("profile: a sample of %d values, want the 2 of a CPU profile", len(s.Value))
		}
		out := Sample{Nanos: s.Value[1]}
		for _, at := range s.Location {
			for _, line := range at.Line {
				if line.Function == nil {
					return nil, fmt.Errorf("profile: a line at %#x has no function", at.Address)
				}
				out.Stack = append(out.Stack, line.Function.Name)
			}
		}
		all = append(all, out)
	}
	return all, nil
}

// Rule puts a stack into a group when one of its functions begins with one of
// the prefixes.
type Rule struct {
	Group    string
	Prefixes []string
}

// Share is a group's part of all CPU time, 0 to 1.
type Share struct {
	Group string
	Part  float64
}

// Divide gives each sample to the first rule that matches any function of its
// stack, or to other. All rules and other are in the result, in that order;
// the parts add up to 1 unless there was no time at all.
func Divide(samples []Sample, rules []Rule, other string) []Share {
	shares := make([]Share, len(rules)+1)
	for i, r := range rules {
		shares[i].Group = r.Group
	}
	shares[len(rules)].Group = other
	var total float64
	for _, s := range samples {
		at := slices.IndexFunc(rules, func(r Rule) bool { return r.matches(s.Stack) })
		if at < 0 {
			at = len(rules)
		}
		shares[at].Part += float64(s.Nanos)
		total += float64(s.Nanos)
	}
	for i := range shares {
		if total > 0 {
			shares[i].Part /= total
		}
	}
	return shares
}

func (r Rule) matches(stack []string) bool {
	return slices.ContainsFunc(stack, func(f string) bool {
		return slices.ContainsFunc(r.Prefixes, func(p string) bool { return strings.HasPrefix(f, p) })
	})
}

// Top returns the n functions with the most CPU time of their own.
func Top(samples []Sample, n int) []Share {
	own := map[string]float64{}
	var total float64
	for _, s := range samples {
		if len(s.Stack) > 0 {
			own[s.Stack[0]] += float64(s.Nanos)
		}
		total += float64(s.Nanos)
	}
	var top []Share
	for f, t := range own {
		if total > 0 {
			top = append(top, Share{f, t / total})
		}
	}
	slices.SortFunc(top, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Part, a.Part), cmp.Compare(a.Group, b.Group))
	})
	return top[:min(n, len(top))]
}
