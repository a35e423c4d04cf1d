package skills

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"corenode/bench/report"
)

// Result is one case's answer. Fault says what is wrong with it; empty for a right one.
type Result struct {
	Answer     Answer
	Fault      string
	ValidCalls int // of the answer's calls, those of a tool on offer and of its schema
}

// Schema names the layout of Report as JSON; it changes when a field changes its meaning.
const Schema = "corebench.skills/2"

// Report is the result of a run. METHOD.md documents its JSON.
type Report struct {
	Schema  string       `json:"schema"`
	Options Options      `json:"options"`
	Rounds  []Round      `json:"rounds"` // models in their order, and of each the temperatures
	Gates   report.Gates `json:"gates"`
}

// Round is one model at one temperature.
type Round struct {
	Model       string    `json:"model"`
	Temperature float64   `json:"temperature"` // negative: the server's default
	Skills      []Score   `json:"skills"`      // in the order of the files
	All         Score     `json:"all"`
	Faults      []Failure `json:"faults"`
}

// Score is how one skill did.
type Score struct {
	Skill string  `json:"skill"`
	Cases int     `json:"cases"`
	Right int     `json:"right"`
	Share float64 `json:"share"`
	// Ended is the share of answers that the model ended by itself.
	Ended float64 `json:"ended"`
	// Looped is the share whose text or thoughts go round in circles.
	Looped float64 `json:"looped"`
	// Tokens is the mean length of an answer.
	Tokens float64 `json:"tokens"`
	// Calls were made, and ValidCalls of them were of a tool on offer and of its schema.
	Calls      int `json:"calls"`
	ValidCalls int `json:"valid_calls"`
	// Wanted cases want a call, and Called of them were answered rightly.
	Wanted int `json:"wanted_calls"`
	Called int `json:"right_calls"`
}

// Failure is one wrong answer, for people to look at.
type Failure struct {
	Skill    string `json:"skill"`
	Name     string `json:"name"`
	Fault    string `json:"fault"`
	Text     string `json:"text"`
	Thinking string `json:"thinking,omitempty"`
	Calls    []Call `json:"calls,omitempty"`
}

// Summarize counts. results[i] belongs to cases[i].
func Summarize(model string, temperature float64, cases []Case, results []Result) Round {
	r := Round{Model: model, Temperature: temperature}
	scores, all := map[string]*Score{}, Score{Skill: "all"}
	var order []*Score
	for i, c := range cases {
		s := scores[c.Skill]
		if s == nil {
			s = &Score{Skill: c.Skill}
			scores[c.Skill] = s
			order = append(order, s)
		}
		s.add(c, results[i])
		all.add(c, results[i])
		if a := results[i].Answer; results[i].Fault != "" {
			r.Faults = append(r.Faults, Failure{c.Skill, c.Name, results[i].Fault, a.Text, a.Thinking, a.Calls})
		}
	}
	for _, s := range order {
		r.Skills = append(r.Skills, s.shares())
	}
	r.All = all.shares()
	return r
}

// add counts one answer; shares makes shares of what was counted.
func (s *Score) add(c Case, r Result) {
	s.Cases++
	right := r.Fault == ""
	if right {
		s.Right++
	}
	if r.Answer.Stop == "end_turn" || r.Answer.Stop == "tool_use" || r.Answer.Stop == "stop_sequence" {
		s.Ended++
	}
	if Loops(r.Answer.Text) || Loops(r.Answer.Thinking) {
		s.Looped++
	}
	s.Tokens += float64(r.Answer.Output)
	s.Calls += len(r.Answer.Calls)
	s.ValidCalls += r.ValidCalls
	if len(c.Expect.Tools) > 0 {
		s.Wanted++
		if right {
			s.Called++
		}
	}
}

func (s *Score) shares() Score {
	out, n := *s, float64(max(s.Cases, 1))
	out.Share, out.Ended, out.Looped, out.Tokens = float64(s.Right)/n, s.Ended/n, s.Looped/n, s.Tokens/n
	return out
}

// Met says whether every skill reached the gate, and every promise is kept that was asked for.
func (r Report) Met() bool {
	low := func(s Score) bool { return s.Share < r.Options.MinScore }
	return r.Gates.Met() && !slices.ContainsFunc(r.Rounds, func(one Round) bool { return slices.ContainsFunc(one.Skills, low) })
}

// faultsShown bounds what Print says of wrong answers of a round; the JSON has all.
const faultsShown = 10

// Print writes the report for people: of each model the table of its card, and what was wrong.
func (r Report) Print(w io.Writer) error {
	for _, model := range r.Options.Models {
		var rounds []Round
		for _, one := range r.Rounds {
			if one.Model == model {
				rounds = append(rounds, one)
			}
		}
		fmt.Fprintf(w, "\n%s, %s\n\n%s", model, strings.Join(r.Options.Files, ", "), cardTable(rounds))
		for _, one := range rounds {
			printFaults(w, one)
		}
	}
	if len(r.Gates) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return r.Gates.Print(w)
}

// cardTable is the table of a model card, but for its sums, which a card has by file: a row for each skill and one for all of
// them, and for each temperature what was right and what ended.
func cardTable(rounds []Round) string {
	if len(rounds) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("| skill | cases |")
	for _, r := range rounds {
		fmt.Fprintf(&b, " right, %s | ended |", temperatureText(r.Temperature))
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|---|", len(rounds)) + "\n")
	for i := range len(rounds[0].Skills) + 1 {
		for k, r := range rounds {
			s := append(slices.Clip(r.Skills), r.All)[i]
			if k == 0 {
				fmt.Fprintf(&b, "| %s | %d |", s.Skill, s.Cases)
			}
			fmt.Fprintf(&b, " %s | %s |", percent(s.Share), percent(s.Ended))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for _, r := range rounds {
		fmt.Fprintf(&b, "At %s %.2f %% of the answers go round in circles", temperatureText(r.Temperature), 100*r.All.Looped)
		if a := r.All; a.Calls > 0 && a.Wanted > 0 {
			fmt.Fprintf(&b, "; %d of %d calls are valid, %d of %d wanted calls right", a.ValidCalls, a.Calls, a.Called, a.Wanted)
		}
		fmt.Fprintf(&b, "; an answer has %s tokens.\n", report.Number(r.All.Tokens))
	}
	return b.String()
}

func printFaults(w io.Writer, r Round) {
	for i, f := range r.Faults {
		if i == faultsShown {
			fmt.Fprintf(w, "\nand %d more wrong answers at %s\n", len(r.Faults)-i, temperatureText(r.Temperature))
			break
		}
		fmt.Fprintf(w, "\n%s, %s: %s\n  %.300q\n", f.Skill, f.Name, f.Fault, f.Text)
	}
}

func temperatureText(t float64) string {
	if t < 0 {
		return "default temperature"
	}
	return fmt.Sprintf("temperature %v", t)
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
