package template

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// strftimeNow is the time of the rendering in a form of Python's strftime, as
// transformers has it: the same for all calls of one rendering, and in UTC.
func strftimeNow(f *frame, args arguments) value {
	form, ok := args.get(0, "format").(string)
	if !ok {
		panic(errors.New("strftime_now takes one string"))
	}
	if len(form) > formMax {
		panic(fmt.Errorf("%w: a form of a time of more than %d bytes", ErrLimit, formMax))
	}
	return strftime(f.run.now, form)
}

const (
	formMax  = 4096 // bytes of the form of a time
	widthMax = 4096 // characters to which a format pads
)

// layouts are the directives of strftime that Go's package time has too.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'm': "01", 'y': "06", 'Y': "2006",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'Z': "MST", 'z': "-0700", 'j': "002",
	'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04",
}

// strftime writes a time. A minus after the percent sign drops zeros in front.
func strftime(t time.Time, form string) string {
	var out strings.Builder
	for i := 0; i < len(form); i++ {
		if form[i] != '%' || i+1 == len(form) {
			out.WriteByte(form[i])
			continue
		}
		start, bare := i, form[i+1] == '-' && i+2 < len(form)
		i++
		if bare {
			i++
		}
		text, known := directive(t, form[i])
		switch {
		case !known:
			text = form[start : i+1]
		case bare:
			if trimmed := strings.TrimLeft(text, "0 "); trimmed != "" {
				text = trimmed
			} else {
				text = "0"
			}
		}
		out.WriteString(text)
	}
	return out.String()
}

// directive is one directive of strftime.
func directive(t time.Time, c byte) (text string, known bool) {
	switch c {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	}
	layout, known := layouts[c]
	return t.Format(layout), known
}

// readJSONText is from_json: a JSON text as the value that it is.
func readJSONText(in value, _ arguments) value {
	s, ok := in.(string)
	if !ok {
		panic(errors.New("from_json takes a string"))
	}
	v, err := fromJSON([]byte(s))
	if err != nil {
		panic(err)
	}
	return v
}

// formatString is Python's str.format, without the lookups in arguments that a
// sandbox is careful with.
func formatString(r *run, s string, args arguments) value {
	var out strings.Builder
	given := fields{args: args}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c != '{' && c != '}':
			out.WriteByte(c)
			continue
		case i+1 < len(s) && s[i+1] == c:
			out.WriteByte(c)
			i++
			continue
		case c == '}':
			panic(errors.New("format: a single } stands alone"))
		}
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			panic(errors.New("format: a { is not closed"))
		}
		field, spec, _ := strings.Cut(s[i+1:i+end], ":")
		i += end
		field, conversion, _ := strings.Cut(field, "!")
		text := formatValue(given.find(field), conversion, spec)
		r.work(1 + len(text)/1024)
		if out.WriteString(text); out.Len() > outputMax {
			panic(errLongString)
		}
	}
	return out.String()
}

// fields finds the arguments of a format: one after the other, or by number, or by name.
type fields struct {
	args     arguments
	next     int  // of those without a number
	numbered bool // one had a number
}

func (f *fields) find(field string) (v value) {
	position, notNumber := strconv.Atoi(field)
	switch {
	case field == "" && !f.numbered:
		v = argument(f.args.positional, f.next)
		f.next++
	case notNumber == nil && position >= 0 && f.next == 0:
		v, f.numbered = argument(f.args.positional, position), true
	case field == "" || notNumber == nil:
		panic(errors.New("format: numbered fields stand beside others, or are under 0"))
	default:
		v = f.args.byName(field)
	}
	if v == nil {
		panic(fmt.Errorf("format: there is no argument %q", field))
	}
	return v
}

// formatSpec is what stands behind the colon of a field.
type formatSpec struct {
	fill        rune
	align, sign byte // 0 for none
	comma       bool
	width       int
	precision   int  // -1 for none
	kind        byte // 0 for that of the value
}

func parseSpec(text string) formatSpec {
	f := formatSpec{fill: ' ', precision: -1}
	if fill, size := utf8.DecodeRuneInString(text); size > 0 && len(text) > size && strings.IndexByte("<>^=", text[size]) >= 0 {
		f.fill, f.align, text = fill, text[size], text[size+1:]
	} else if text != "" && strings.IndexByte("<>^=", text[0]) >= 0 {
		f.align, text = text[0], text[1:]
	}
	if text != "" && strings.IndexByte("+- ", text[0]) >= 0 {
		f.sign, text = text[0], text[1:]
	}
	if rest, zero := strings.CutPrefix(text, "0"); zero {
		text = rest
		if f.align == 0 {
			f.fill, f.align = '0', '='
		} else if f.fill == ' ' {
			f.fill = '0'
		}
	}
	number := func() int {
		n := len(text) - len(strings.TrimLeft(text, "0123456789"))
		x, _ := strconv.Atoi(text[:n]) // too large a number is over the bound too
		text = text[n:]
		return x
	}
	f.width = number()
	if rest, comma := strings.CutPrefix(text, ","); comma {
		f.comma, text = true, rest
	}
	if rest, point := strings.CutPrefix(text, "."); point {
		text = rest
		f.precision = number()
	}
	if f.width > widthMax || f.precision > widthMax {
		panic(fmt.Errorf("%w: a format of more than %d characters", ErrLimit, widthMax))
	}
	if len(text) == 1 {
		f.kind, text = text[0], ""
	}
	if text != "" {
		panic(fmt.Errorf("format: %q is not known", text))
	}
	return f
}

// formatValue writes one argument.
func formatValue(v value, conversion, spec string) string {
	switch conversion {
	case "":
	case "s":
		v = text(v)
	case "r":
		v = repr(v)
	default:
		panic(fmt.Errorf("format: the conversion %q is not known", conversion))
	}
	if spec == "" {
		return text(v)
	}
	f := parseSpec(spec)
	switch x := v.(type) {
	case string:
		return f.string(x)
	case bool, int, integer, float:
		return f.number(v)
	}
	panic(fmt.Errorf("format: %q does not fit %s", spec, typeName(v)))
}

func (f formatSpec) string(s string) string {
	if f.kind != 0 && f.kind != 's' || f.sign != 0 || f.comma || f.align == '=' {
		panic(errors.New("format: this form is a number's"))
	}
	if f.precision >= 0 && utf8.RuneCountInString(s) > f.precision {
		s = string([]rune(s)[:f.precision])
	}
	return f.pad("", s, '<')
}

// intBases are the kinds of whole numbers.
var intBases = map[byte]int{0: 10, 'd': 10, 'x': 16, 'X': 16, 'o': 8, 'b': 2}

func (f formatSpec) number(v value) string {
	x, isReal := v.(float)
	real := float64(x)
	base, whole := intBases[f.kind]
	var digits string
	switch {
	case whole && !isReal && f.precision < 0:
		digits = bigOf(v).Text(base)
		if f.kind == 'X' {
			digits = strings.ToUpper(digits)
		}
	case f.kind == 0 && f.precision < 0:
		digits = text(v)
	case f.kind == 'f', f.kind == 'F', f.kind == '%':
		if !isReal {
			real, _ = new(big.Float).SetInt(bigOf(v)).Float64()
		}
		if f.precision < 0 {
			f.precision = 6
		}
		if f.kind == '%' {
			real *= 100
		}
		digits = strconv.FormatFloat(real, 'f', f.precision, 64)
	default:
		panic(errors.New("format: this form of a number is not known"))
	}
	digits, negative := strings.CutPrefix(digits, "-")
	if f.comma {
		digits = grouped(digits)
	}
	if f.kind == '%' {
		digits += "%"
	}
	sign := ""
	switch {
	case negative:
		sign = "-"
	case f.sign == '+' || f.sign == ' ':
		sign = string(rune(f.sign))
	}
	return f.pad(sign, digits, '>')
}

// grouped has a comma before every third digit of the whole part.
func grouped(digits string) string {
	whole, rest := digits, ""
	if point := strings.IndexByte(digits, '.'); point >= 0 {
		whole, rest = digits[:point], digits[point:]
	}
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	return whole + rest
}

// pad fills up to the width, in the way that the format says or else the usual one.
func (f formatSpec) pad(sign, s string, usual byte) string {
	n := max(0, f.width-utf8.RuneCountInString(sign+s))
	align := f.align
	if align == 0 {
		align = usual
	}
	fill := func(n int) string { return strings.Repeat(string(f.fill), n) }
	switch align {
	case '<':
		return sign + s + fill(n)
	case '^':
		return fill(n/2) + sign + s + fill(n-n/2)
	case '=':
		return sign + fill(n) + s
	}
	return fill(n) + sign + s
}
