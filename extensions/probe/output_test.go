package probe

import (
	"testing"

	"corenode/wasm/abi"
)

// TestEventsOfRoutes: of a module with routes the form of events is looked at and not what they hold;
// chat and responses hold JSON objects.
func TestEventsOfRoutes(t *testing.T) {
	for written, want := range map[string]struct{ routes, chat bool }{
		"":                            {true, true},
		"data: {}\n\n":                {true, true},
		"data: {}\r\n\r\n":            {true, true},
		"data: [DONE]\n\n":            {true, true},
		": alive\n\n":                 {true, true},
		"data: a word\n\n":            {true, false},
		"event: x\r\ndata: 1\r\n\r\n": {true, false},
		"data: a\nlast\n\n":           {true, false},
		"data\n\n":                    {false, false},
		"{}\n\n":                      {false, false},
		"data: {}\n":                  {false, false},
		"data: {}\r\n":                {false, false},
		"data: \xff\n\n":              {false, false},
	} {
		for framing, ok := range map[string]bool{"sse": want.routes, "": want.chat} {
			failed := abi.ErrorInput{Facts: abi.Facts{Stream: true}}.Append(nil)
			for what, problem := range map[string]string{
				"a group":             Malformed(abi.OpEvents, nil, output(abi.Written{Bytes: []byte(written)}.Append(nil)), framing),
				"the end of a stream": Malformed(abi.OpError, failed, output([]byte(written)), framing),
			} {
				if ok != (problem == "") {
					t.Errorf("%s, %q, framing %q: %q", what, written, framing, problem)
				}
			}
		}
	}
}

// TestErrorOfRoutes: the body of an error is JSON; of chat and responses it is an object.
func TestErrorOfRoutes(t *testing.T) {
	in := abi.ErrorInput{}.Append(nil)
	for body, want := range map[string]struct{ routes, chat bool }{`{}`: {true, true}, `"no"`: {true, false}, `no`: {false, false}} {
		for framing, ok := range map[string]bool{"json": want.routes, "": want.chat} {
			if problem := Malformed(abi.OpError, in, output([]byte(body)), framing); ok != (problem == "") {
				t.Errorf("%s, framing %q: %q", body, framing, problem)
			}
		}
	}
}

func output(payload []byte) []byte {
	frame := append(abi.BeginOutput(nil, abi.StatusOK, 0), payload...)
	abi.EndOutput(frame, 0)
	return frame
}
