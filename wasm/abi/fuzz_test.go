package abi

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

// fuzzRecord checks a decoder on any bytes: it must not panic, and what it
// accepts must be encoded again to the same bytes. Where more than one
// encoding is read (a flag that is neither 0 nor 1, what stands behind a
// unit's zero byte) canonical is false, and the second encoding must stand.
func fuzzRecord[T any](f *testing.F, canonical bool, encode func(T, []byte) []byte, decode func([]byte) (T, error)) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 8 {
		var seed T
		fill(r, reflect.ValueOf(&seed).Elem())
		f.Add(encode(seed, nil))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) { checkRecord(t, b, canonical, encode, decode) })
}

func checkRecord[T any](t *testing.T, b []byte, canonical bool, encode func(T, []byte) []byte, decode func([]byte) (T, error)) {
	record, err := decode(b)
	if err != nil {
		return
	}
	again := encode(record, nil)
	if canonical && !bytes.Equal(again, b) {
		t.Fatalf("%q is read as %+v and written %q", b, record, again)
	}
	second, err := decode(again)
	if err != nil || len(again) != len(b) || !reflect.DeepEqual(second, record) {
		t.Fatalf("%q is read as %+v, written %q and read as %+v, %v", b, record, again, second, err)
	}
}

// errorEncoder is how an ErrorInput of the version of b is encoded.
func errorEncoder(b []byte) func(ErrorInput, []byte) []byte {
	if bytes.HasPrefix(b, []byte(errorTag)) {
		return ErrorInput.Append
	}
	return ErrorInput.Append10
}

// FuzzDecode gives the same bytes to every decoder: one target to run for long.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, record := range []func() []byte{
		func() []byte { var v Translated; fill(r, reflect.ValueOf(&v).Elem()); return v.Append(nil) },
		func() []byte { var v Written; fill(r, reflect.ValueOf(&v).Elem()); return v.Append(nil) },
		func() []byte { var v EventsInput; fill(r, reflect.ValueOf(&v).Elem()); return v.Append(nil) },
		func() []byte { var v RequestInput; fill(r, reflect.ValueOf(&v).Elem()); return v.Append(nil) },
		func() []byte { var v ModelsInput; fill(r, reflect.ValueOf(&v).Elem()); return v.Append(nil) },
		func() []byte { var v CountInput; fill(r, reflect.ValueOf(&v).Elem()); return v.Append(nil) },
		func() []byte { var v ErrorInput; fill(r, reflect.ValueOf(&v).Elem()); return v.Append(nil) },
		func() []byte { var v ErrorInput; fill(r, reflect.ValueOf(&v).Elem()); return v.Append10(nil) },
		func() []byte { var v Charge; fill(r, reflect.ValueOf(&v).Elem()); return v.Append(nil) },
		func() []byte { var v ChargeInput; fill(r, reflect.ValueOf(&v).Elem()); return v.Append(nil) },
		func() []byte { var v Decision; fill(r, reflect.ValueOf(&v).Elem()); return v.Append(nil) },
		func() []byte { var v AdmissionInput; fill(r, reflect.ValueOf(&v).Elem()); return v.Append(nil) },
	} {
		f.Add(record())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkRecord(t, b, true, Refusal.Append, ParseRefusal)
		checkRecord(t, b, false, RequestInput.Append, ParseRequestInput)
		checkRecord(t, b, true, Translated.Append, ParseTranslated)
		checkRecord(t, b, false, EventsInput.Append, ParseEventsInput)
		checkRecord(t, b, true, Written.Append, ParseWritten)
		checkRecord(t, b, false, ResponseInput.Append, ParseResponseInput)
		checkRecord(t, b, false, errorEncoder(b), ParseErrorInput)
		checkRecord(t, b, false, ModelsInput.Append, ParseModelsInput)
		checkRecord(t, b, false, CountInput.Append, ParseCountInput)
		checkRecord(t, b, true, QuoteInput.Append, ParseQuoteInput)
		checkRecord(t, b, true, Quote.Append, ParseQuote)
		checkRecord(t, b, true, ChargeInput.Append, ParseChargeInput)
		checkRecord(t, b, false, Charge.Append, ParseCharge)
		checkRecord(t, b, false, AdmissionInput.Append, ParseAdmissionInput)
		checkRecord(t, b, true, Decision.Append, ParseDecision)
		if o, err := ParseOutput(b); err == nil && len(o.Payload) != len(b)-OutputHeader {
			t.Fatalf("an output of %d bytes has a payload of %d", len(b), len(o.Payload))
		}
		for rest := Frames(b); ; {
			before := len(rest)
			if _, ok := rest.Next(); !ok {
				break
			}
			if len(rest) >= before {
				t.Fatal("a frame takes nothing off")
			}
		}
	})
}

func FuzzParseRefusal(f *testing.F) { fuzzRecord(f, true, Refusal.Append, ParseRefusal) }
func FuzzParseRequestInput(f *testing.F) {
	fuzzRecord(f, false, RequestInput.Append, ParseRequestInput)
}
func FuzzParseTranslated(f *testing.F)  { fuzzRecord(f, true, Translated.Append, ParseTranslated) }
func FuzzParseEventsInput(f *testing.F) { fuzzRecord(f, false, EventsInput.Append, ParseEventsInput) }
func FuzzParseWritten(f *testing.F)     { fuzzRecord(f, true, Written.Append, ParseWritten) }
func FuzzParseResponseInput(f *testing.F) {
	fuzzRecord(f, false, ResponseInput.Append, ParseResponseInput)
}
func FuzzParseErrorInput(f *testing.F) {
	f.Add(ErrorInput{Kind: RateLimited, Status: 429, Param: "p", Msg: "m"}.Append(nil))
	f.Add(ErrorInput{Kind: RateLimited, Status: 429, Param: "p", Msg: "m"}.Append10(nil))
	f.Fuzz(func(t *testing.T, b []byte) { checkRecord(t, b, false, errorEncoder(b), ParseErrorInput) })
}
func FuzzParseQuoteInput(f *testing.F)  { fuzzRecord(f, true, QuoteInput.Append, ParseQuoteInput) }
func FuzzParseQuote(f *testing.F)       { fuzzRecord(f, true, Quote.Append, ParseQuote) }
func FuzzParseChargeInput(f *testing.F) { fuzzRecord(f, true, ChargeInput.Append, ParseChargeInput) }
func FuzzParseCharge(f *testing.F)      { fuzzRecord(f, false, Charge.Append, ParseCharge) }
func FuzzParseAdmissionInput(f *testing.F) {
	fuzzRecord(f, false, AdmissionInput.Append, ParseAdmissionInput)
}
func FuzzParseDecision(f *testing.F) { fuzzRecord(f, true, Decision.Append, ParseDecision) }

func FuzzParseOutput(f *testing.F) {
	f.Add(BeginOutput(nil, StatusDecline, 0))
	f.Add([]byte("\x01\x00\x01\x00\x03\x00\x00\x00abc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := ParseOutput(b)
		if err != nil {
			return
		}
		again := append(BeginOutput(nil, out.Status, out.Kind), out.Payload...)
		EndOutput(again, 0)
		if !bytes.Equal(again, b) {
			t.Fatalf("%q is read as %+v and written %q", b, out, again)
		}
	})
}

// FuzzFrames reads frames off any bytes: together with the rest they are the
// bytes again, and no accessor reads beyond its payload.
func FuzzFrames(f *testing.F) {
	var all []byte
	for i := range every {
		all = AppendFrame(all, &every[i])
		f.Add(bytes.Clone(all))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rest := Frames(b)
		var again []byte
		for frame, ok := rest.Next(); ok; frame, ok = rest.Next() {
			id, name := frame.Tool()
			if len(id)+len(name) > len(frame.Payload) || len(frame.StopSequence()) > len(frame.Payload) {
				t.Fatalf("an accessor reads beyond %q", frame.Payload)
			}
			frame.Usage()
			n := len(frame.Payload)
			again = append(again, byte(frame.Kind), byte(frame.Block), byte(frame.Index), byte(frame.Index>>8),
				byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
			again = append(again, frame.Payload...)
		}
		if again = append(again, rest...); !bytes.Equal(again, b) {
			t.Fatalf("%q was read as %q", b, again)
		}
	})
}

func FuzzAppendEscaped(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\n\x00", "\xff\xf0\x9f", "😀\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkEscaped(t, s) })
}
