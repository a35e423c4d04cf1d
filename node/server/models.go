package server

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"corenode/engine"
	"corenode/wasm/abi"
)

// listed is one model in the form that both families of SDK parse. The messages
// SDKs name the two numbers once more, and their types want the rest as well.
type listed struct {
	ID                  string  `json:"id"`
	Object              string  `json:"object"`
	Created             int64   `json:"created"`
	OwnedBy             string  `json:"owned_by"`
	Type                string  `json:"type"`
	DisplayName         string  `json:"display_name"`
	CreatedAt           string  `json:"created_at"`
	ContextLength       int     `json:"context_length"`
	MaxCompletionTokens int     `json:"max_completion_tokens"`
	MaxInputTokens      int     `json:"max_input_tokens"` // ContextLength
	MaxTokens           int     `json:"max_tokens"`       // MaxCompletionTokens
	Lifecycle           string  `json:"lifecycle"`        // "active", or it were not listed
	Capabilities        *string `json:"capabilities"`     // from here on always null: not known, none or never
	Line                *string `json:"line"`
	DeprecatedAt        *string `json:"deprecated_at"`
	RetiresAt           *string `json:"retires_at"`
}

// listing is the page of all models: there is never a second one.
type listing struct {
	Object  string   `json:"object"`
	Data    []listed `json:"data"`
	HasMore bool     `json:"has_more"`
	FirstID *string  `json:"first_id"`
	LastID  *string  `json:"last_id"`
}

func list(i engine.Info) listed {
	return listed{ID: i.ID, Object: "model", Created: i.Created, OwnedBy: "corenode", Type: "model",
		DisplayName: cmp.Or(i.DisplayName, i.ID),
		CreatedAt:   time.Unix(i.Created, 0).UTC().Format(time.RFC3339), ContextLength: i.ContextLength, MaxCompletionTokens: i.OutputMax,
		MaxInputTokens: i.ContextLength, MaxTokens: i.OutputMax, Lifecycle: "active"}
}

// models serves GET /v1/models: what the key may use, ordered by id.
func (x *exchange) models() {
	x.withPermit(func() {
		page := listing{Object: "list", Data: []listed{}}
		for _, info := range x.usable() {
			page.Data = append(page.Data, list(info))
		}
		if n := len(page.Data); n > 0 {
			page.FirstID, page.LastID = &page.Data[0].ID, &page.Data[n-1].ID
		}
		x.marshal(page)
	})
}

// usable are the models that the key may use, by id.
func (x *exchange) usable() (all []engine.Info) {
	for _, info := range x.s.deps.Catalog.Models() {
		if x.who.mayUse(info.ID) {
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b engine.Info) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// model serves GET /v1/models/{id}.
func (x *exchange) model() {
	id := modelID(x.ctx.Request.Header.RequestURI())
	x.withPermit(func() {
		model, ok := x.s.deps.Catalog.Model(id)
		if !ok || !x.who.mayUse(model.Info().ID) {
			x.fail(modelNotFound(id))
			return
		}
		x.marshal(list(model.Info()))
	})
}

// withPermit runs an endpoint that generates nothing under a permit.
func (x *exchange) withPermit(serve func()) {
	release, err := x.enter()
	if err != nil {
		x.fail(abi.AsError(err))
		return
	}
	defer release()
	serve()
}

// enter takes a permit until release; another node's request has one there.
func (x *exchange) enter() (release func(), err error) {
	if x.who.Peer.Forwards() {
		return func() {}, nil
	}
	release, limits, err := x.s.deps.Backend.Enter(*x.who.Account, x.who.key())
	x.setLimits(limits)
	return release, err
}

func (x *exchange) marshal(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("server: an answer does not marshal: " + err.Error())
	}
	x.json(b)
}
