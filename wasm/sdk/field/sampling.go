package field

import "corenode/wasm/sdk/scan"

// Sampling is the fields that say how an answer is made, which chat completions and its older
// form spell alike. Numbers are as they stand in the body; nil is absent or null.
type Sampling struct {
	Temperature, TopP, TopK, MinP, Seed []byte
	Presence, Frequency, Repetition     []byte
	MinTokens                           []byte
	Format                              []byte // the native response_format, nil for plain text
	Stops                               []byte // the native stop sequences, each with a comma before it
	StopText                            bool   // stop was a string
	// IgnoreEOS: the model's own end does not end the answer, as load tools want it.
	IgnoreEOS bool
}

// Field reads the value of a field that is not null, if it is one of these but Format. It is
// one dispatch switch: the list of what it knows.
func (s *Sampling) Field(r *Reader, name []byte) bool {
	switch string(name) {
	case "temperature":
		s.Temperature = r.Number()
	case "top_p":
		s.TopP = r.Number()
	case "top_k": // the -1 that some clients send for "all" is 0 here
		n, text := r.Integer(-1, "an integer")
		if s.TopK = text; n == -1 {
			s.TopK = []byte("0")
		}
	case "min_p":
		s.MinP = r.Number()
	case "presence_penalty":
		s.Presence = r.Number()
	case "frequency_penalty":
		s.Frequency = r.Number()
	case "repetition_penalty", "repeat_penalty": // llama-server's name for it
		s.Repetition = r.Number()
	case "seed":
		s.Seed = r.Seed()
	case "min_tokens":
		_, s.MinTokens = r.Integer(0, "an integer")
	case "ignore_eos":
		s.IgnoreEOS = r.Bool()
	case "stop":
		s.Stops, s.StopText = r.Stops(s.Stops[:0])
	default:
		return false
	}
	return true
}

// Append appends them to a native body, with a comma before each.
func (s *Sampling) Append(dst []byte) []byte {
	for _, p := range [...]struct {
		name  string
		value []byte
	}{
		{"temperature", s.Temperature}, {"top_p", s.TopP}, {"top_k", s.TopK}, {"min_p", s.MinP},
		{"presence_penalty", s.Presence}, {"frequency_penalty", s.Frequency}, {"repetition_penalty", s.Repetition},
		{"seed", s.Seed}, {"min_tokens", s.MinTokens}, {"response_format", s.Format},
	} {
		dst = AppendMember(dst, p.name, p.value)
	}
	dst = AppendArray(dst, "stop_sequences", s.Stops)
	if s.IgnoreEOS {
		dst = append(dst, `,"ignore_eos":true`...)
	}
	return dst
}

// IncludeUsage reads stream_options and says whether usage is asked for, which was so far.
// Without stream it asks for nothing: a whole answer always has its usage.
func (r *Reader) IncludeUsage(so bool) bool {
	if !r.Open(scan.Object) {
		return so
	}
	for r.S.NextMember() {
		if string(r.S.Key()) == "include_usage" {
			so = r.Bool()
		}
	}
	return so
}
