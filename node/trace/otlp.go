package trace

import (
	"encoding/hex"
	"strconv"
	"time"
	"unicode/utf8"
)

// The JSON encoding of OTLP: ids are hexadecimal, integers of 64 bits are texts, enumerations are
// numbers, and names are in lower camel case.

// resource is what the spans are of.
type resource struct {
	version    string
	attributes []attribute
	place      place
}

// encode appends a request to a collector with the spans of the records. scratch is memory to be used again.
func encode(dst []byte, of *resource, records []*Record, scratch []span) ([]byte, []span) {
	dst = append(dst, `{"resourceSpans":[{"resource":{`...)
	dst = appendAttributes(dst, of.attributes)
	dst = append(dst, `},"scopeSpans":[{"scope":{"name":"`+scopeName+`","version":`...)
	dst = appendText(dst, of.version)
	dst = append(dst, `},"spans":[`...)
	first := true
	for _, r := range records {
		scratch = spansOf(scratch[:0], r, of.place)
		for i := range scratch {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = appendSpan(dst, &scratch[i], r.Began)
		}
	}
	dst = append(dst, `],"schemaUrl":"`+SchemaURL+`"}],"schemaUrl":"`+SchemaURL+`"}]}`...)
	return dst, scratch
}

// appendSpan appends a span of a request that began at a time.
func appendSpan(dst []byte, s *span, at time.Time) []byte {
	dst = append(dst, `{"traceId":"`...)
	dst = hex.AppendEncode(dst, s.trace[:])
	dst = append(dst, `","spanId":"`...)
	dst = hex.AppendEncode(dst, s.id[:])
	if s.parent != [8]byte{} {
		dst = append(dst, `","parentSpanId":"`...)
		dst = hex.AppendEncode(dst, s.parent[:])
	}
	dst = append(dst, '"')
	if s.state != "" {
		dst = append(dst, `,"traceState":`...)
		dst = appendText(dst, s.state)
	}
	dst = append(dst, `,"flags":`...)
	dst = strconv.AppendUint(dst, uint64(s.flags), 10)
	dst = append(dst, `,"name":`...)
	dst = appendText(dst, s.name)
	dst = append(dst, `,"kind":`...)
	dst = strconv.AppendInt(dst, int64(s.kind), 10)
	dst = appendTime(append(dst, `,"startTimeUnixNano":"`...), at, s.began)
	dst = appendTime(append(dst, `","endTimeUnixNano":"`...), at, s.ended)
	dst = append(dst, '"')
	if len(s.attributes) > 0 {
		dst = appendAttributes(append(dst, ','), s.attributes)
	}
	if s.event != "" {
		dst = appendTime(append(dst, `,"events":[{"timeUnixNano":"`...), at, s.eventAt)
		dst = append(dst, `","name":`...)
		dst = appendText(dst, s.event)
		dst = append(dst, `}]`...)
	}
	if s.failed {
		dst = append(dst, `,"status":{"code":2}`...)
	}
	return append(dst, '}')
}

// appendTime appends a time of a request by what the clock showed when the request began: it may have been set since.
func appendTime(dst []byte, began, t time.Time) []byte {
	return strconv.AppendInt(dst, began.UnixNano()+int64(t.Sub(began)), 10)
}

func appendAttributes(dst []byte, all []attribute) []byte {
	dst = append(dst, `"attributes":[`...)
	for i := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"key":`...)
		dst = appendText(dst, all[i].key)
		dst = append(dst, `,"value":`...)
		dst = appendValue(dst, &all[i])
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendValue(dst []byte, a *attribute) []byte {
	switch {
	case a.kind == intValue:
		dst = append(dst, `{"intValue":"`...)
		return append(strconv.AppendInt(dst, a.number, 10), `"}`...)
	case a.kind == floatValue:
		dst = append(dst, `{"doubleValue":`...)
		return append(strconv.AppendFloat(dst, a.float, 'g', -1, 64), '}')
	case a.kind == boolValue:
		dst = append(dst, `{"boolValue":`...)
		return append(strconv.AppendBool(dst, a.number != 0), '}')
	case a.list:
		dst = append(dst, `{"arrayValue":{"values":[{"stringValue":`...)
		return append(appendText(dst, a.text), `}]}}`...)
	}
	dst = append(dst, `{"stringValue":`...)
	return append(appendText(dst, a.text), '}')
}

// appendText appends a text in quotes. What is no UTF-8 becomes the replacement character.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	written := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= ' ' && b < utf8.RuneSelf && b != '"' && b != '\\' {
			i++
			continue
		}
		dst = append(dst, s[written:i]...)
		switch {
		case b < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
			i++
		case b < utf8.RuneSelf:
			dst = append(dst, '\\', b)
			i++
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
		}
		written = i
	}
	return append(append(dst, s[written:]...), '"')
}
