package generatecontent

import (
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
)

// Bounds of a page of the listing, as the protocol has them.
const (
	pageDefault = 50
	pageMax     = 1000
)

// Models writes the listing, or one model. A page token is where the next page begins.
func (Translator) Models(dst []byte, in abi.ModelsInput) ([]byte, *abi.Error) {
	if routeOf(&in.Route) == routeModel {
		id := modelOf(&in.Route)
		for i := range in.Models {
			if in.Models[i].ID == id {
				return appendModel(dst, &in.Models[i]), nil
			}
		}
		return dst, &abi.Error{Kind: abi.ModelNotFound, Op: "generatecontent.Models", Param: "model",
			Msg: field.Quoted([]byte(id)) + " is not a model of this service"}
	}
	size, ok := parameter(&in.Route, "pageSize", pageDefault)
	if !ok {
		return dst, wrongQuery("pageSize")
	}
	from, ok := parameter(&in.Route, "pageToken", 0)
	if !ok || from > len(in.Models) {
		return dst, wrongQuery("pageToken")
	}
	if size == 0 {
		size = pageDefault
	}
	to := min(from+min(size, pageMax), len(in.Models))
	dst = append(dst, `{"models":[`...)
	for i := from; i < to; i++ {
		if i > from {
			dst = append(dst, ',')
		}
		dst = appendModel(dst, &in.Models[i])
	}
	dst = append(dst, ']')
	if to < len(in.Models) {
		dst = append(strconv.AppendInt(append(dst, `,"nextPageToken":"`...), int64(to), 10), '"')
	}
	return append(dst, '}'), nil
}

// parameter is a number of the query.
func parameter(route *abi.Route, name string, absent int) (int, bool) {
	text := route.Parameter(name)
	if text == "" {
		return absent, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

func wrongQuery(name string) *abi.Error {
	return &abi.Error{Kind: abi.InvalidRequest, Op: "generatecontent.Models", Detail: abi.Detail{Reason: abi.ReasonField},
		Param: name, Msg: "want a number that a listing can have"}
}

func appendModel(dst []byte, m *abi.Model) []byte {
	name := m.Name
	if name == "" {
		name = m.ID
	}
	dst = abi.AppendEscaped(append(dst, `{"name":"models/`...), m.ID)
	dst = abi.AppendEscaped(append(dst, `","version":"`...), m.ID)
	dst = abi.AppendEscaped(append(dst, `","displayName":"`...), name)
	dst = strconv.AppendInt(append(dst, `","inputTokenLimit":`...), m.Context, 10)
	dst = strconv.AppendInt(append(dst, `,"outputTokenLimit":`...), m.Output, 10)
	return append(dst, `,"supportedGenerationMethods":["generateContent","streamGenerateContent","countTokens"],"thinking":true}`...)
}
