package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Problem is one thing wrong with a configuration.
type Problem struct {
	Source string // the file, variable or flag at fault; empty = none in particular
	Line   int    // in the file; 0 = unknown
	Key    string // such as limits.queue_timeout
	Text   string
}

// Error says where, what and what would be right.
func (p Problem) Error() string {
	var where string
	switch {
	case p.Line > 0:
		where = fmt.Sprintf("%s:%d: ", p.Source, p.Line)
	case p.Source != "":
		where = p.Source + ": "
	}
	if p.Key == "" {
		return where + p.Text
	}
	return where + p.Key + " " + p.Text
}

// Sources is where values come from, weakest first.
type Sources struct {
	// File is a YAML file; empty = none.
	File string
	// Environment is a list of NAME=value. CORENODE_ and the key in capitals,
	// dots as underscores, sets a key outside models: CORENODE_LIMITS_QUEUE_TIMEOUT=5s.
	// CORENODE_LISTEN_DEFAULT and CORENODE_DATA_DIR_DEFAULT are weaker than File: an image and a unit set them. Other
	// names, also other CORENODE_ ones, belong to somebody else.
	Environment []string
	// Flags maps keys to the values of command line flags, such as listen to 0.0.0.0:80.
	Flags map[string]string
	// Models are ID=PATH, from --model. A new id gets the prices of core-1.1, as configured if that is served.
	Models []string
}

// Load reads, overlays and validates, and says where the values came from. Its error joins every Problem.
func Load(from Sources) (*Config, Origins, error) {
	text, err := from.text()
	if err != nil {
		return nil, Origins{}, err
	}
	c, origins, problems := build(text, from)
	if err := join(problems); err != nil {
		return nil, Origins{}, err
	}
	return c, origins, nil
}

// Reread is Load for a node that runs by what came from running. A pipe is not read again: its text is gone, or
// who opens it waits for somebody to write. A file that was cut to nothing is not taken for one that asks for the defaults.
func Reread(from Sources, running Origins) (*Config, Origins, error) {
	if isPipe(from.File) {
		return nil, Origins{}, Problem{Source: from.File,
			Text: "the configuration is a pipe, which is read at a start only: start the node anew, or name a file"}
	}
	c, origins, err := Load(from)
	if err == nil && running.keyed && !origins.keyed {
		return nil, Origins{}, Problem{Source: from.File, Text: "the file has no key, and the node runs by some of its: " +
			"write it again, or start the node anew for the defaults"}
	}
	return c, origins, err
}

func isPipe(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode()&fs.ModeNamedPipe != 0
}

// isDescriptor says whether a path is that of a file which this process was started with.
func isDescriptor(file string) bool {
	folder := filepath.Dir(file)
	return file == "/dev/stdin" || folder == "/dev/fd" || folder == "/proc/self/fd"
}

// text is that of the file.
func (s Sources) text() ([]byte, error) {
	if s.File == "" {
		return nil, nil
	}
	text, err := os.ReadFile(s.File)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	return text, nil
}

func join(problems []Problem) error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// Partial is what sources say as far as they can be read, for who looks at a node that runs: it may have
// started before they had their problems.
type Partial struct {
	Config   *Config // unknown keys have any value
	problems []Problem
	origins  Origins
}

// LoadPartial is Load of what may not be valid. It takes a file that is not there for an unreadable one, and so a pipe with a name: who
// opens that waits for somebody to write, or takes what is written for a node. One without a name was opened for who looks.
func LoadPartial(from Sources) Partial {
	var text []byte
	var err error
	if isPipe(from.File) && !isDescriptor(from.File) {
		err = Problem{Source: from.File, Text: "the configuration is a named pipe, which is read at a start only: name a file"}
	} else {
		text, err = from.text()
	}
	c, origins, problems := build(text, from)
	if err != nil {
		problems = append([]Problem{{Text: err.Error()}}, problems...)
	}
	return Partial{c, problems, origins}
}

// Err joins every Problem, as Load does.
func (p Partial) Err() error { return join(p.problems) }

// Given says whether a source names a key outside models.
func (p Partial) Given(key string) bool { return p.Source(key) != "" }

// Source is the file, the variable or the flags that name a key outside models; "" where it has its default.
func (p Partial) Source(key string) string { return p.origins.places[key].source }

// Known says whether the value of a key outside models is what the sources say: no problem is of it, and where the file or its
// section cannot be read, a stronger source has it.
func (p Partial) Known(key string) bool {
	from := p.origins.places[key].source
	stronger := p.Given(key) && from != listenDefault && from != folderDefault
	return !slices.ContainsFunc(p.problems, func(q Problem) bool {
		around := q.Key == "" || strings.HasPrefix(key, q.Key+".")
		return q.Key == key || around && !stronger
	})
}

// build decides everything of Load. It is pure, so tests and the fuzzer call it.
func build(text []byte, from Sources) (*Config, Origins, []Problem) {
	d := decoder{source: from.File, places: map[string]place{}}
	c := Default()
	d.file(c, text)
	keyed := len(d.places) > 0
	d.environment(c, from.Environment)
	d.flags(c, from.Flags)
	d.models(c, from.Models)
	d.judge(c.validate())
	return c, Origins{d.places, keyed}, d.problems
}

// LoadModels is the models of a file, for what they cost. What else is missing a node may have from elsewhere. A file that says
// nothing is a mistake, and so is a key that is not known: the prices would be the defaults'.
func LoadModels(file string) (map[string]Model, error) {
	text, err := Sources{File: file}.text()
	if err != nil {
		return nil, err
	}
	d := decoder{source: file, places: map[string]place{}}
	c := Default()
	d.file(c, text)
	if len(d.places)+len(d.problems) == 0 {
		return nil, Problem{Source: file, Text: "the file has no key, want the configuration of a node"}
	}
	d.judge(slices.DeleteFunc(c.validate(), func(p Problem) bool { return p.Key != "models" && !isPrice(p.Key) }))
	return c.Models, join(d.problems)
}

// judge adds what is wrong with the values that were read.
func (d *decoder) judge(problems []Problem) {
	known := len(d.problems)
	for _, p := range problems {
		// A value that could not be read kept its default; validate saw that one.
		if slices.ContainsFunc(d.problems[:known], func(q Problem) bool { return q.Key == p.Key }) {
			continue
		}
		at := d.placeOf(p.Key)
		p.Source, p.Line = at.source, at.line
		d.problems = append(d.problems, p)
	}
	// In the order of the file, then what no line is to blame for.
	slices.SortStableFunc(d.problems, func(a, b Problem) int {
		return cmp.Compare(uint(a.Line)-1, uint(b.Line)-1)
	})
}

// listenDefault and folderDefault are variables that stand in for the defaults of listen and data_dir.
const listenDefault, folderDefault = "CORENODE_LISTEN_DEFAULT", "CORENODE_DATA_DIR_DEFAULT"

// commandLine is the source of what a flag says.
const commandLine = "command line"

// standIn is the variable that stands in for the default of a key, where the file leaves that; "" = none does. A whole
// reference leaves the folder, which it has as a path from wherever a node starts; its listen is a choice, of this machine alone.
func (d *decoder) standIn(c *Config, key string) string {
	switch {
	case key == "listen" && d.places[key] == (place{}):
		return listenDefault
	case key == "data_dir" && c.DataDir == Default().DataDir:
		return folderDefault
	}
	return ""
}

// OverruledFolder is the data folder that CORENODE_DATA_DIR_DEFAULT names where the file or CORENODE_DATA_DIR names the one in force; ""
// where neither does, as beside a flag.
func OverruledFolder(from Sources, origins Origins) string {
	if source := origins.places["data_dir"].source; source == commandLine || source == folderDefault {
		return ""
	}
	for _, variable := range slices.Backward(from.Environment) {
		if name, folder, _ := strings.Cut(variable, "="); name == folderDefault {
			return folder
		}
	}
	return ""
}

// OverruledFolder is that of what it was loaded from.
func (p Partial) OverruledFolder(from Sources) string { return OverruledFolder(from, p.origins) }

// environment overlays variables of this node; a variable names a key or is not ours.
func (d *decoder) environment(c *Config, variables []string) {
	names := map[string]string{}
	for _, variable := range variables {
		if name, value, ok := strings.Cut(variable, "="); ok {
			names[name] = value
		}
	}
	for _, leaf := range leavesOf(c) {
		name := "CORENODE_" + strings.ToUpper(strings.ReplaceAll(leaf.key, ".", "_"))
		value, ok := names[name]
		if other := d.standIn(c, leaf.key); !ok && other != "" {
			name = other
			value, ok = names[name]
		}
		if ok {
			if leaf.key == shareModelsKey && value == "false" {
				value = "" // as in a file
			}
			d.set(leaf, value, place{source: name})
		}
	}
}

func (d *decoder) flags(c *Config, flags map[string]string) {
	used := 0
	for _, leaf := range leavesOf(c) {
		if value, ok := flags[leaf.key]; ok {
			used++
			d.set(leaf, value, place{source: commandLine})
		}
	}
	if used != len(flags) {
		panic(fmt.Sprintf("config: a flag of %v names no key", flags))
	}
}

// models overlays --model ID=PATH.
func (d *decoder) models(c *Config, flags []string) {
	for _, flag := range flags {
		id, path, _ := strings.Cut(flag, "=")
		if id == "" || path == "" {
			d.problems = append(d.problems, Problem{Source: commandLine, Text: fmt.Sprintf("--model is %q, want ID=PATH", flag)})
			continue
		}
		m, known := c.Models[id]
		if !known {
			m = defaultModel(id)
			if m.Prices.Input == priceMissing {
				core, there := c.Models["core-1.1"]
				if !there {
					core = defaultModel("core-1.1")
				}
				m.Prices = core.Prices
			}
		}
		m.Path = path
		c.Models[id] = m
		key := "models." + id
		if known { // the rest is as it was
			key += ".path"
		}
		d.places[key] = place{source: commandLine}
	}
}
