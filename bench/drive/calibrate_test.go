package drive

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"corenode/bench/protocol"
	"corenode/bench/workload"
)

func TestCalibration(t *testing.T) {
	for _, p := range []protocol.Protocol{protocol.Messages, protocol.Chat} {
		o := options(t, &fake{}, p)
		if c, err := Calibrate(t.Context(), o); err != nil || c != (workload.Calibration{PerWord: 1, Overhead: 10}) {
			t.Errorf("%s: %+v, %v", p, c, err)
		}
	}
	d := driver{o: Options{Template: protocol.Template{Model: "m", Extra: []byte(`{"ignore_eos":true,"thinking":{"type":"disabled"}}`)}}}
	body, err := d.countedBody(protocol.Count, []byte("hi"))
	if err != nil || string(body) != `{"messages":[{"content":"hi","role":"user"}],"model":"m","thinking":{"type":"disabled"}}` {
		t.Errorf("%s, %v", body, err)
	}
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you", http.StatusUnauthorized) })
	if _, err := Calibrate(t.Context(), options(t, refuse, protocol.Messages)); err == nil || !strings.Contains(err.Error(), "who are you") {
		t.Errorf("error %v", err)
	}
}

// strict is a server as fake is one, without the request that only counts. It refuses members that do not go with an answer of one
// token that is not streamed, and counts three tokens more of a prompt with thinking.
func strict(t *testing.T) http.Handler {
	f := &fake{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var said struct {
			MinTokens int             `json:"min_tokens"`
			MaxTokens int             `json:"max_tokens"`
			Options   json.RawMessage `json:"stream_options"`
			Stream    bool
			Kwargs    struct{ Thinking bool } `json:"chat_template_kwargs"`
		}
		if err == nil {
			err = json.Unmarshal(body, &said)
		}
		switch {
		case err != nil:
			t.Error(err)
		case r.URL.Path == protocol.Count.Path():
			http.NotFound(w, r)
			return
		case said.MinTokens > said.MaxTokens:
			http.Error(w, "min_tokens is above max_tokens", http.StatusBadRequest)
			return
		case said.Options != nil && !said.Stream:
			http.Error(w, "stream_options without stream", http.StatusBadRequest)
			return
		case said.Kwargs.Thinking:
			body = bytes.Replace(body, []byte(`"content":"`), []byte(`"content":"a b c `), 1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		f.ServeHTTP(w, r)
	})
}

// TestCalibrationAsksWithWhatChangesThePrompt: other members of a load may be refused with an answer of one token.
func TestCalibrationAsksWithWhatChangesThePrompt(t *testing.T) {
	for _, p := range []protocol.Protocol{protocol.Messages, protocol.Chat} {
		o := options(t, strict(t), p)
		o.Template.Extra = []byte(`{"min_tokens":4,"stream_options":{"include_usage":true},"chat_template_kwargs":{"thinking":true}}`)
		if c, err := Calibrate(t.Context(), o); err != nil || c != (workload.Calibration{PerWord: 1, Overhead: 13}) {
			t.Errorf("%s: %+v, %v", p, c, err)
		}
	}
}
