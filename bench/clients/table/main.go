// Command table shows what clients of other people's making got from a node, one
// row per case, and holds it against the list of what is expected to fail. It
// ends with status 1 when a case fails that is not on the list, and when the list
// is not true any more.
//
//	table EXPECTED RESULTS    # a JSON list; a file with one JSON object per line
//	table -some EXPECTED RESULTS    # not all clients ran
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is what a case came to.
type result struct {
	Client   string `json:"client"`
	Version  string `json:"version"`
	Protocol string `json:"protocol"`
	Case     string `json:"case"`
	Error    string `json:"error"` // "" is a success
}

// node is who results are of that are about the nodes alone.
const node = "corenode"

// expectation is a case that fails because the contract says so.
type expectation struct {
	Client   string `json:"client"`
	Protocol string `json:"protocol"` // "" is every one on which the case runs
	Case     string `json:"case"`
	Says     string `json:"says"`   // what the error must hold: another failure of the same case is a new one
	Reason   string `json:"reason"` // the contract's sentence
}

func main() {
	some := flag.Bool("some", false, "not all clients ran: what is expected of the others is not asked for")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: table [-some] EXPECTED RESULTS")
		os.Exit(2)
	}
	wrong, err := run(os.Stdout, flag.Arg(0), flag.Arg(1), *some)
	if err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(2)
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

// run prints the table and returns how much of it is wrong.
func run(out io.Writer, expected, results string, some bool) (wrong int, err error) {
	text, err := os.ReadFile(expected)
	if err != nil {
		return 0, err
	}
	list, err := readExpected(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", expected, err)
	}
	if text, err = os.ReadFile(results); err != nil {
		return 0, err
	}
	got, err := readResults(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", results, err)
	}
	rows := judge(got, list, some)
	return show(out, rows)
}

func readExpected(text []byte) (list []expectation, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, err
	}
	for _, e := range list {
		if e.Client == "" || e.Case == "" || e.Says == "" || e.Reason == "" {
			return nil, fmt.Errorf("%+v: client, case, says and reason are needed", e)
		}
	}
	return list, nil
}

func readResults(text []byte) (got []result, err error) {
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var r result
		if err := d.Decode(&r); err != nil {
			return nil, err
		}
		got = append(got, r)
	}
	if !slices.ContainsFunc(got, func(r result) bool { return r.Client != node }) {
		return nil, fmt.Errorf("no results of a client: nothing was tested")
	}
	return got, nil
}

// row is one line of the table.
type row struct {
	result
	verdict string
	wrong   bool
}

// judge holds results against what is expected. Expectations that nothing ran for
// are rows too, unless only some clients ran.
func judge(got []result, list []expectation, some bool) (rows []row) {
	ran := make([]bool, len(list))
	for _, r := range got {
		w := row{result: r, verdict: "ok"}
		if r.Error != "" {
			w.verdict, w.wrong = "FAIL", true
		}
		for i, e := range list {
			if !e.covers(r) {
				continue
			}
			ran[i] = true
			switch {
			case r.Error == "":
				w.verdict, w.wrong = "PASSES, but is on the list of expected failures", true
			case strings.Contains(r.Error, e.Says):
				w.verdict, w.wrong = "expected failure: "+e.Reason, false
			}
		}
		rows = append(rows, w)
	}
	for i, e := range list {
		if !ran[i] && !some {
			rows = append(rows, row{result: result{Client: e.Client, Protocol: e.Protocol, Case: e.Case},
				verdict: "DID NOT RUN, but is on the list of expected failures", wrong: true})
		}
	}
	return rows
}

func (e expectation) covers(r result) bool {
	return e.Client == r.Client && e.Case == r.Case && (e.Protocol == "" || e.Protocol == r.Protocol)
}

// show prints the rows, the errors of what is wrong, and the sum.
func show(out io.Writer, rows []row) (wrong int, err error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "client\tversion\tprotocol\tcase\tresult")
	expected := 0
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Client, r.Version, r.Protocol, r.Case, r.verdict)
		switch {
		case r.wrong:
			wrong++
		case r.Error != "":
			expected++
		}
	}
	if err := w.Flush(); err != nil {
		return wrong, err
	}
	for _, r := range rows {
		if r.wrong && r.Error != "" {
			fmt.Fprintf(out, "\n%s, %s, %s:\n%s\n", r.Client, r.Protocol, r.Case, r.Error)
		}
	}
	_, err = fmt.Fprintf(out, "\nclients: %d cases, %d ok, %d expected failures, %d wrong\n", len(rows), len(rows)-expected-wrong,
		expected, wrong)
	return wrong, err
}
