package extensions

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"corenode/extensions/guest"
)

// Denial is one entry of modules.denied: the module of a digest, or every
// version of a name below one. Exactly one of Digest and Name is set.
type Denial struct {
	Digest string // sha256: and 64 digits
	Name   string
	Below  string // of Name: versions from this one on are not denied
}

// ParseDenial reads an entry: sha256:DIGEST or NAME<VERSION.
func ParseDenial(text string) (Denial, error) {
	if isDigest(text) {
		return Denial{Digest: text}, nil
	}
	name, below, found := strings.Cut(text, "<")
	d := Denial{Name: strings.TrimSpace(name), Below: strings.TrimSpace(below)}
	if _, ordered := parseVersion(d.Below); !found || !guest.PlainName(d.Name) || !ordered {
		return Denial{}, errors.New("sha256: and the 64 digits of a digest, or a name below a version, such as discount<1.2.0")
	}
	return d, nil
}

// String is the entry as it is written.
func (d Denial) String() string {
	if d.Digest != "" {
		return d.Digest
	}
	return d.Name + "<" + d.Below
}

// covers says whether the entry denies a module. m is nil while its manifest is
// not known. A version that has no order, such as "beta", is below every other.
func (d Denial) covers(digest string, m *guest.Manifest) bool {
	if d.Digest != "" {
		return d.Digest == digest
	}
	if m == nil || d.Name != m.Name {
		return false
	}
	below, _ := parseVersion(d.Below)
	version, ordered := parseVersion(m.Version)
	return !ordered || version.compare(below) < 0
}

// version is one that can be put into order: numbers between dots, maybe a "v"
// before them, maybe a name of a version before the release after a "-".
type version struct {
	numbers []uint64
	before  []string // of the release, between dots; nil is the release itself
}

func parseVersion(text string) (v version, ok bool) {
	core, before, early := strings.Cut(strings.TrimPrefix(text, "v"), "-")
	for part := range strings.SplitSeq(core, ".") {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return version{}, false
		}
		v.numbers = append(v.numbers, n)
	}
	if early {
		v.before = strings.Split(before, ".")
	}
	return v, true
}

// compare orders versions as semantic versioning does; numbers that are not
// written are 0.
func (v version) compare(w version) int {
	for i := range max(len(v.numbers), len(w.numbers)) {
		if c := cmp.Compare(at(v.numbers, i), at(w.numbers, i)); c != 0 {
			return c
		}
	}
	if v.before == nil || w.before == nil {
		return cmp.Compare(len(w.before), len(v.before)) // the release is the later one
	}
	for i := range min(len(v.before), len(w.before)) {
		if c := compareBefore(v.before[i], w.before[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(v.before), len(w.before))
}

func at(numbers []uint64, i int) uint64 {
	if i < len(numbers) {
		return numbers[i]
	}
	return 0
}

// compareBefore orders parts of what stands after a "-": numbers by their value, and before words.
func compareBefore(a, b string) int {
	n, errA := strconv.ParseUint(a, 10, 64)
	m, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB == nil:
		return cmp.Compare(n, m)
	case errA == nil:
		return -1
	case errB == nil:
		return 1
	}
	return strings.Compare(a, b)
}
