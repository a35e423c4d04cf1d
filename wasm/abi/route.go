package abi

// What a module with routes of its own is told beside what every translator is.
// Keys are never among it: not the secret, and not the header or the parameter of
// the query that it came in.

// Pair is one named value of a request.
type Pair struct{ Name, Value string }

// Route is how a request reached a module.
type Route struct {
	Index   int    // of the manifest's routes
	Params  []Pair // of the path, in its order, unescaped
	Query   []Pair // the parameters that the manifest names, as they came, unescaped
	Headers []Pair // the headers that the manifest names, by the manifest's spelling
}

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

func (r *Route) append(dst []byte) []byte {
	dst = append(dst, byte(r.Index), byte(r.Index>>8))
	for _, all := range [...][]Pair{r.Params, r.Query, r.Headers} {
		dst = append(dst, byte(len(all)), byte(len(all)>>8))
		for _, p := range all {
			dst = appendText(appendText(dst, p.Name), p.Value)
		}
	}
	return dst
}

func (c *cursor) route() (r Route) {
	r.Index = int(c.u16())
	for _, all := range [...]*[]Pair{&r.Params, &r.Query, &r.Headers} {
		n := int(c.u16())
		if n > PairsMax {
			c.err = ErrMalformed
		}
		for range n {
			if c.err != nil {
				return r
			}
			*all = append(*all, Pair{c.aliasedText(), c.aliasedText()})
		}
	}
	return r
}

// requestTag begins the record that a module with routes is given. The other one
// begins with when the request came: no time is so late.
const requestTag = "request\x02"

// Model is one model in a listing, which the request's key may use.
type Model struct {
	ID      string
	Name    string // for people
	Created int64  // Unix seconds
	Context int64  // tokens of prompt and answer together
	Output  int64  // the most tokens of an answer
}

// ModelsInput is the input of OpModels. The output is a body, or a Refusal of
// kind InvalidRequest or ModelNotFound.
type ModelsInput struct {
	Facts  Facts
	Route  Route
	Models []Model // by id
	Body   []byte  // of a POST; empty of a GET
}

// modelsTag begins a ModelsInput, countTag a CountInput.
const (
	modelsTag = "models/1"
	countTag  = "count/1\x00"
)

// Append encodes in.
func (in ModelsInput) Append(dst []byte) []byte {
	dst = in.Route.append(in.Facts.append(append(dst, modelsTag...)))
	n := uint32(len(in.Models))
	dst = append(dst, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	for i := range in.Models {
		m := &in.Models[i]
		dst = appendText(appendText(appendInts(dst, m.Created, m.Context, m.Output), m.ID), m.Name)
	}
	return append(dst, in.Body...)
}

// ParseModelsInput decodes a ModelsInput, which aliases b.
func ParseModelsInput(b []byte) (in ModelsInput, err error) {
	c := cursor{b: b}
	c.tag(modelsTag)
	in.Facts = c.facts()
	in.Route = c.route()
	for n := c.u32(); n > 0 && c.err == nil; n-- {
		m := Model{Created: c.i64(), Context: c.i64(), Output: c.i64()}
		m.ID, m.Name = c.aliasedText(), c.aliasedText()
		in.Models = append(in.Models, m)
	}
	in.Body = c.rest()
	return in, c.err
}

// CountInput is the input of OpCount: the tokens of a prompt that OpRequest
// translated. The output is the body.
type CountInput struct {
	Facts  Facts
	Kept   []byte
	Tokens int64
}

// Append encodes in.
func (in CountInput) Append(dst []byte) []byte {
	return appendSection(appendInts(in.Facts.append(append(dst, countTag...)), in.Tokens), in.Kept)
}

// ParseCountInput decodes a CountInput, which aliases b.
func ParseCountInput(b []byte) (in CountInput, err error) {
	c := cursor{b: b}
	c.tag(countTag)
	in.Facts = c.facts()
	in.Tokens = c.i64()
	in.Kept = c.section()
	return in, c.end()
}
