package template

import "slices"

// object is a mapping that keeps the order of its source.
type object []member

type member struct {
	key string
	val value
}

func (o object) get(key string) (value, bool) {
	for i := range o {
		if o[i].key == key {
			return o[i].val, true
		}
	}
	return nil, false
}

// objectSearchMax is up to how many members a key is found by looking at each; where more
// are looked for, or set, a map is used.
const objectSearchMax = 32

// positions are where the members of an object are, by key.
func (o object) positions() map[string]int {
	at := make(map[string]int, len(o))
	for i := len(o) - 1; i >= 0; i-- { // of two of a key it is the first
		at[o[i].key] = i
	}
	return at
}

// gathering is an object to which members are added one by one.
type gathering struct {
	object
	at map[string]int // beyond objectSearchMax members
}

// set replaces or appends; Python keeps the first position of a repeated key.
func (g *gathering) set(key string, val value) {
	if g.at == nil && len(g.object) >= objectSearchMax {
		g.at = g.positions()
	}
	if i := g.find(key); i >= 0 {
		g.object[i].val = val
		return
	}
	if g.at != nil {
		g.at[key] = len(g.object)
	}
	g.object = append(g.object, member{key, val})
}

// find returns where a member is, -1 when it is not there.
func (g *gathering) find(key string) int {
	if g.at == nil {
		return slices.IndexFunc(g.object, func(m member) bool { return m.key == key })
	}
	if i, ok := g.at[key]; ok {
		return i
	}
	return -1
}

func (g *gathering) get(key string) (value, bool) {
	if i := g.find(key); i >= 0 {
		return g.object[i].val, true
	}
	return nil, false
}
