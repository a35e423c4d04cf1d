package grammar

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// references finds the parts of a schema that its references name: by a JSON
// pointer, or by the $id and $anchor of a part. Nothing outside of it is looked for.
type references struct {
	resources map[string]*value // by URI, without a fragment
	anchors   map[string]*value // by URI and fragment
	bases     map[*value]*url.URL
	found     map[*value]*value // what a reference names; nil: it is not found
}

// resolve follows a reference, such as #/$defs/Point, #point or point.json.
func (c *compiler) resolve(ref *value) *value {
	at := c.lookup(ref)
	if at == nil {
		c.wrong(ref, "%s is not found: only references within the schema are followed", ref.compact())
	}
	return at
}

// lookup follows a reference; nil: it is not found.
func (c *compiler) lookup(ref *value) *value {
	if c.references == nil {
		c.references = &references{resources: map[string]*value{}, anchors: map[string]*value{},
			bases: map[*value]*url.URL{}, found: map[*value]*value{}}
		c.index(c.root[0])
	}
	at, known := c.references.found[ref]
	if !known {
		at = c.find(ref)
		c.references.found[ref] = at
	}
	return at
}

// find looks for what a reference names.
func (c *compiler) find(ref *value) *value {
	c.spend(ref.size / stepWork)
	to, err := url.Parse(ref.text)
	if err != nil || ref.kind != '"' {
		return nil
	}
	to = c.base(ref.parent).ResolveReference(to)
	resource, fragment := split(to)
	at := c.references.resources[resource]
	if fragment != "" && fragment[0] != '/' {
		at, fragment = c.references.anchors[resource+"#"+fragment], ""
	}
	return c.follow(at, fragment)
}

// split is a URI without its fragment, and the fragment.
func split(u *url.URL) (resource, fragment string) {
	whole := *u
	whole.Fragment, whole.RawFragment = "", ""
	return whole.String(), u.Fragment
}

// base is the URI against which the references of an object are resolved: the nearest
// $id around it, which may itself be relative to one further out.
func (c *compiler) base(v *value) *url.URL {
	if v == nil {
		return &url.URL{}
	}
	base, known := c.references.bases[v]
	if known {
		return base
	}
	base = c.base(v.parent)
	if id := v.member("$id"); id != nil && (c.besideRef() || v.member("$ref") == nil) {
		if u, err := url.Parse(id.text); err == nil {
			resolved := *base.ResolveReference(u)
			resolved.Fragment, resolved.RawFragment = "", ""
			base = &resolved
		}
	}
	c.references.bases[v] = base
	return base
}

// besideRef says whether an $id beside a $ref counts: it does since the draft of 2019.
func (c *compiler) besideRef() bool {
	draft := c.root[0].member("$schema")
	return draft != nil && strings.Contains(draft.text, "/draft/20")
}

// index enters the names of all parts of a schema that have one. Of two parts with the
// same name the first has it.
func (c *compiler) index(v *value) {
	c.spend(1)
	name := func(names map[string]*value, as string) {
		if _, taken := names[as]; !taken {
			names[as] = v
		}
	}
	resource := c.base(v).String()
	id := v.member("$id")
	if v.parent == nil || id != nil && !strings.HasPrefix(id.text, "#") {
		name(c.references.resources, resource)
	}
	if id != nil { // before 2019 an anchor was the fragment of an $id
		if _, fragment, _ := strings.Cut(id.text, "#"); fragment != "" {
			name(c.references.anchors, resource+"#"+fragment)
		}
	}
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		if anchor := v.member(keyword); anchor != nil {
			name(c.references.anchors, resource+"#"+anchor.text)
		}
	}
	for i, m := range v.values {
		if v.kind == '{' && slices.Contains(data, v.names[i]) && (m.kind == '[') == (v.names[i] == "enum") {
			continue
		}
		c.index(m)
	}
}

// data are the keywords whose values are documents and no schemas.
var data = []string{"enum", "const", "default", "examples"}

// follow goes down a JSON pointer; nil where there is nothing.
func (c *compiler) follow(v *value, pointer string) *value {
	for _, step := range strings.Split(pointer, "/")[1:] {
		if v == nil {
			return nil
		}
		c.spend(len(v.names) / stepWork)
		step = pointerUnescape.Replace(step)
		if v.kind != '[' {
			v = v.member(step)
			continue
		}
		at, err := strconv.Atoi(step)
		if err != nil || at < 0 || at >= len(v.values) || strconv.Itoa(at) != step {
			return nil
		}
		v = v.values[at]
	}
	return v
}
