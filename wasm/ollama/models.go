package ollama

import (
	"slices"
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/piece"
)

// Models answers what is no answer of a model. What the API says of a file, such
// as its size, is not known here and has a neutral value.
func (Translator) Models(dst []byte, in abi.ModelsInput) ([]byte, *abi.Error) {
	switch in.Route.Index {
	case routeShow:
		return show(dst, in)
	case routeVersion:
		return append(dst, `{"version":"`+Version+`"}`...), nil
	}
	dst = append(dst, `{"models":[`...)
	for i := range in.Models {
		m := &in.Models[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = abi.AppendEscaped(append(dst, `{"name":"`...), m.ID)
		dst = abi.AppendEscaped(append(dst, `","model":"`...), m.ID)
		dst = append(dst, `","size":0,"digest":"",`...)
		if in.Route.Index == routePS {
			dst = append(appendDetails(dst), `,"expires_at":"`+never+`","size_vram":0`...)
			dst = piece.AppendInt(dst, "context_length", m.Context)
		} else {
			dst = append(appendTime(append(dst, `"modified_at":"`...), m.Created), `",`...)
			dst = appendDetails(dst)
		}
		dst = append(dst, '}')
	}
	return append(dst, `]}`...), nil
}

// never is when a model leaves the memory.
const never = "9999-12-31T23:59:59Z"

func appendDetails(dst []byte) []byte {
	return append(dst, `"details":{"parent_model":"","format":"","family":"","families":[],"parameter_size":"","quantization_level":""}`...)
}

// show describes the one model that the body names.
func show(dst []byte, in abi.ModelsInput) ([]byte, *abi.Error) {
	r := field.Reader{Op: "ollama.Models"}
	var asked, older []byte // model and its older name; Ollama's own client sends both, one of them empty
	if r.OpenBody(in.Body) {
		for r.S.NextMember() {
			name := r.S.Key()
			switch {
			case string(name) == "model":
				asked = r.Text()
			case string(name) == "name":
				older = r.Text()
			}
		}
	}
	if len(asked) == 0 {
		asked = older
	}
	if r.End(false); len(asked) == 0 {
		r.Fail("model", "field required, a model id")
	}
	if r.Err != nil {
		return dst, r.Err
	}
	id := string(modelID(asked))
	i := slices.IndexFunc(in.Models, func(m abi.Model) bool { return m.ID == id || m.ID == id+latest })
	if i < 0 {
		return dst, &abi.Error{Kind: abi.ModelNotFound, Op: "ollama.Models", Param: "model",
			Msg: "model " + field.Quoted(asked) + " not found"}
	}
	m := &in.Models[i]
	dst = append(dst, `{"modelfile":"","parameters":"","template":"",`...)
	dst = appendDetails(dst)
	dst = abi.AppendEscaped(append(dst, `,"model_info":{"general.architecture":"model","general.basename":"`...), m.Name)
	dst = strconv.AppendInt(append(dst, `","model.context_length":`...), m.Context, 10)
	dst = append(dst, `},"capabilities":["completion","tools","thinking"],"modified_at":"`...)
	return append(appendTime(dst, m.Created), `"}`...), nil
}
