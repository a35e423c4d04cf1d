package peer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"corenode/bench/proc"
)

// Round is one complete round: every server of it was asked every scenario of it.
type Round struct {
	Schema string    `json:"schema"`
	Began  time.Time `json:"began"`
	Host   proc.Host `json:"host"`
	Setting
	Sides []Side `json:"sides"`
}

// Setting is what rounds must have in common to be compared.
type Setting struct {
	Model   string `json:"model"` // name of the file
	Type    string `json:"type"`  // of most of its weights
	Level   string `json:"level"` // of the node's kernels, native if none was forced
	Threads int    `json:"threads"`
}

// Side is one server in one round.
type Side struct {
	Name      string             `json:"name"`
	Version   string             `json:"version,omitempty"`
	Flags     string             `json:"flags,omitempty"` // beyond what all are told
	Scenarios map[string]outcome `json:"scenarios"`
}

// outcome is one scenario on one side in one round.
type outcome struct {
	Values  map[metric]float64 `json:"values"`
	Foreign float64            `json:"foreign"` // share of the machine that others used
	Failed  int                `json:"failed"`  // requests that were not answered in full
}

// RoundSchema names the layout of a line in a file of rounds.
const RoundSchema = "corebench.peer.round/1"

// lineMax bounds a line of a file of rounds; a round of all peers and scenarios has some 10 KB.
const lineMax = 1 << 20

// readRounds reads a file of rounds; one that is not there has none.
func readRounds(path string) (all []Round, err error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, lineMax)
	for n := 1; lines.Scan(); n++ {
		var r Round
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, n, err)
		}
		if r.Schema != RoundSchema {
			return nil, fmt.Errorf("%s, line %d: schema %q, want %q", path, n, r.Schema, RoundSchema)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// addRound appends one line, whole or not at all as far as other readers can tell.
func addRound(path string, r Round) error {
	if path == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// settings are those of the rounds, in order of their first one.
func settings(all []Round) (s []Setting) {
	for _, r := range all {
		if !slices.Contains(s, r.Setting) {
			s = append(s, r.Setting)
		}
	}
	return s
}

// String is a server as reports name it.
func (s Side) String() string { return strings.TrimSpace(s.Name + " " + s.Version + " " + s.Flags) }

// mixed says why rounds cannot be in one table: those of a setting and a server are one median, and all are of one machine.
func mixed(all []Round) error {
	type place struct {
		Setting
		name string
	}
	first := map[place]string{}
	for i, r := range all {
		if a, b := all[0].Host, r.Host; a.Processor != b.Processor || a.Processors != b.Processors {
			return fmt.Errorf("round %d is of another machine (%s) than the first (%s): use another --rounds-file", i+1, b, a)
		}
		for _, s := range r.Sides {
			at := place{r.Setting, s.Name}
			if before, known := first[at]; known && before != s.String() {
				return fmt.Errorf("round %d has %q, a round before it of the same setting %q: use another --rounds-file", i+1, s, before)
			}
			first[at] = s.String()
		}
	}
	return nil
}

// side finds a server's outcome of a scenario.
func (r Round) side(name, scenario string) (outcome, bool) {
	for _, s := range r.Sides {
		if o, ok := s.Scenarios[scenario]; ok && s.Name == name {
			return o, true
		}
	}
	return outcome{}, false
}
