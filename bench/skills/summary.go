package skills

import (
	"fmt"
	"io"
	"slices"

	"corenode/bench/report"
)

// Result is one case's answer. Fault says what is wrong with it; empty for a right one.
type Result struct {
	Answer Answer
	Fault  string
}

// Schema names the layout of Report as JSON; it changes when a field changes its meaning.
const Schema = "corebench.skills/1"

// Report is the result of a run. METHOD.md documents its JSON.
type Report struct {
	Schema  string    `json:"schema"`
	Options Options   `json:"options"`
	Skills  []Score   `json:"skills"` // in the order of the file
	All     Score     `json:"all"`
	Faults  []Failure `json:"faults"`
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
func Summarize(o Options, cases []Case, results []Result) Report {
	r := Report{Schema: Schema, Options: o}
	var order []string
	by := map[string][]Result{}
	for i, c := range cases {
		if by[c.Skill] == nil {
			order = append(order, c.Skill)
		}
		by[c.Skill] = append(by[c.Skill], results[i])
		if a := results[i].Answer; results[i].Fault != "" {
			r.Faults = append(r.Faults, Failure{c.Skill, c.Name, results[i].Fault, a.Text, a.Thinking, a.Calls})
		}
	}
	for _, skill := range order {
		r.Skills = append(r.Skills, score(skill, by[skill]))
	}
	r.All = score("all", results)
	return r
}

func score(skill string, results []Result) Score {
	s, n := Score{Skill: skill, Cases: len(results)}, float64(len(results))
	for _, r := range results {
		if r.Fault == "" {
			s.Right++
		}
		if r.Answer.Stop == "end_turn" || r.Answer.Stop == "tool_use" || r.Answer.Stop == "stop_sequence" {
			s.Ended += 1 / n
		}
		if Loops(r.Answer.Text) || Loops(r.Answer.Thinking) {
			s.Looped += 1 / n
		}
		s.Tokens += float64(r.Answer.Output) / n
	}
	s.Share = float64(s.Right) / n
	return s
}

// Met says whether every skill reached the gate.
func (r Report) Met() bool {
	return !slices.ContainsFunc(r.Skills, func(s Score) bool { return s.Share < r.Options.MinScore })
}

// faultsShown bounds what Print says of wrong answers; the JSON has all.
const faultsShown = 10

// Print writes the report for people.
func (r Report) Print(w io.Writer) error {
	temperature := "the server's default temperature"
	if r.Options.Temperature >= 0 {
		temperature = fmt.Sprintf("temperature %v", r.Options.Temperature)
	}
	fmt.Fprintf(w, "\n%s, %s, %s\n\n", r.Options.Model, r.Options.File, temperature)
	var rows [][]string
	for _, s := range append(slices.Clone(r.Skills), r.All) {
		rows = append(rows, []string{s.Skill, fmt.Sprint(s.Cases), percent(s.Share), percent(s.Ended),
			percent(s.Looped), report.Number(s.Tokens)})
	}
	if err := report.Table(w, []string{"SKILL", "CASES", "RIGHT", "ENDED", "LOOPED", "TOKENS"}, rows); err != nil {
		return err
	}
	for i, f := range r.Faults {
		if i == faultsShown {
			fmt.Fprintf(w, "\nand %d more wrong answers\n", len(r.Faults)-i)
			break
		}
		fmt.Fprintf(w, "\n%s, %s: %s\n  %.300q\n", f.Skill, f.Name, f.Fault, f.Text)
	}
	return nil
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
