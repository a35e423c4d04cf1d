package abi

// What a module with routes of its own is told beside what every translator is.
// Keys are never among it: not the secret, and not the header or the parameter of
// the query that it came in.

// PairsMax bounds the pairs of each list.
const PairsMax = 64

// Param is the value of a parameter of the path.
func (r *Route) Param(name string) string { return find(r.Params, name) }

// Parameter is the first value of a parameter of the query.
func (r *Route) Parameter(name string) string { return find(r.Query, name) }

// Header is the first value of a header.
func (r *Route) Header(name string) string { return find(r.Headers, name) }

func find(all []Pair, name string) string {
	for i := range all {
		if all[i].Name == name {
			return all[i].Value
		}
	}
	return ""
}

func appendPairs(dst []byte, all []Pair) []byte {
	dst = append(dst, byte(len(all)), byte(len(all)>>8))
	for i := range all {
		dst = appendText(appendText(dst, all[i].Name), all[i].Value)
	}
	return dst
}

// pairsAt is the pairs at b[at:] and where they end, as sectionAt.
func pairsAt(b []byte, at int) (all []Pair, end int) {
	if !room(b, at, 2) {
		return nil, -1
	}
	n := uint16At(b, at)
	if at += 2; n > PairsMax {
		return nil, -1
	}
	for range n {
		var name, value []byte
		name, at = sectionAt(b, at)
		if value, at = sectionAt(b, at); at < 0 {
			return nil, -1
		}
		all = append(all, Pair{aliased(name), aliased(value)})
	}
	return all, at
}
