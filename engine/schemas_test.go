package engine

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// schemaCase is a JSON schema as people write them, and a request for an answer of it.
type schemaCase struct{ schema, question string }

// topics are what the schemas are about, with members that fit; every string is free.
var topics = []struct {
	name, about string
	members     []string // a name, what it is, and its type
}{
	{"person", "Anna Bell is 34 years old. She lives in Rome, works as a nurse and likes soup.", []string{
		"name:full name:string", "age:age in years:integer", "city:where the person lives:string", "job:what the person does:string",
		"likes:things the person likes:strings", "married:whether the person is married:boolean", "email:email address:string"}},
	{"order", "Please send 3 lamps and 2 chairs to Oak Street 5 in Boston. They cost 120 dollars.", []string{
		"id:number of the order:integer", "items:what is ordered:strings", "address:where it goes:string", "total:price in dollars:number",
		"paid:whether it is paid:boolean", "note:anything else:string", "status:state of the order:new|sent|done"}},
	{"review", "The film was long, but the music was beautiful. I give it four stars.", []string{
		"title:a short title:string", "summary:the review in one sentence:string", "stars:from 1 to 5:stars",
		"pros:what was good:strings", "cons:what was bad:strings", "sentiment:the tone:good|bad|mixed"}},
	{"event", "The team meets on Monday at 10 in room 4. Bring your plans.", []string{
		"title:name of the event:string", "day:day of the week:string", "hour:hour of the day:integer", "place:where it is:string",
		"guests:who comes:strings", "kind:kind of event:meeting|party|trip", "remarks:what to know:string"}},
	{"plan", "I want to learn to cook. What should I do first?", []string{
		"goal:what is to be reached:string", "steps:what to do, in order:strings", "days:how long it takes:integer",
		"reasoning:why this plan is good:string", "difficulty:how hard it is:easy|medium|hard", "answer:the final answer:string"}},
	{"animal", "Tell me about the horse.", []string{
		"name:name of the animal:string", "food:what it eats:strings", "legs:number of legs:integer", "weight:in kilograms:number",
		"wild:whether it lives in the wild:boolean", "description:two sentences about it:string"}},
}

// schemaCases are n schemas and questions, always the same ones.
func schemaCases(n int) (all []schemaCase) {
	r := rand.New(rand.NewPCG(24, 3))
	for range n {
		at := r.IntN(len(topics))
		all = append(all, schemaCase{object(r, at, 0), topics[at].about})
	}
	return all
}

// object is a schema of some of the members of a subject. Some are nested, and some are lists of objects.
func object(r *rand.Rand, at, depth int) string {
	s := topics[at]
	var members, names, required []string
	for _, i := range r.Perm(len(s.members))[:2+r.IntN(len(s.members)-2)] {
		part := strings.Split(s.members[i], ":")
		names, members = append(names, part[0]), append(members, member(r, part[1], part[2]))
	}
	if depth < 2 && r.IntN(4) == 0 {
		inner := object(r, r.IntN(len(topics)), depth+1)
		if r.IntN(2) == 0 {
			inner = `{"type":"array","items":` + inner + `}`
		}
		names, members = append(names, "details"), append(members, inner)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `{"type":"object","title":%q,"properties":{`, s.name)
	all := r.IntN(2) == 0 // strict modes want all of them
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", name, members[i])
		if all || r.IntN(3) > 0 {
			required = append(required, name)
		}
	}
	list, _ := json.Marshal(required)
	if len(required) == 0 {
		list = []byte("[]")
	}
	fmt.Fprintf(&b, `},"required":%s`, list)
	if all || r.IntN(2) == 0 {
		b.WriteString(`,"additionalProperties":false`)
	}
	return b.String() + "}"
}

// member is the schema of one member.
func member(r *rand.Rand, description, kind string) string {
	said := ""
	if r.IntN(2) == 0 {
		quoted, _ := jsontext.AppendQuote(nil, description)
		said = `"description":` + string(quoted) + ","
	}
	switch kind {
	case "strings":
		bounds := []string{"", `,"minItems":1`, `,"maxItems":3`, `,"minItems":2,"maxItems":4`}[r.IntN(4)]
		return `{` + said + `"type":"array","items":{"type":"string"}` + bounds + `}`
	case "stars":
		return `{` + said + `"type":"integer","minimum":1,"maximum":5}`
	case "string":
		if r.IntN(5) == 0 {
			return `{` + said + `"anyOf":[{"type":"string"},{"type":"null"}]}`
		}
	case "integer", "number", "boolean":
	default:
		return `{` + said + `"enum":["` + strings.ReplaceAll(kind, "|", `","`) + `"]}`
	}
	return `{` + said + `"type":"` + kind + `"}`
}
