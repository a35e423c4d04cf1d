package console

import (
	"crypto/rand"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"corenode/extensions"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// formats are what templates call numbers, times and names with.
var formats = template.FuncMap{
	"count":   count,
	"decimal": decimal,
	"bytes":   byteSize,
	"seconds": seconds,
	"percent": func(part float64) string { return decimal(math.Floor(100*part)) + " %" },
	"milliseconds": func(ms any) string {
		v, _ := strconv.ParseFloat(fmt.Sprint(ms), 64) // a number by its type
		return seconds(v / 1000)
	},
	"usd":      func(amount abi.Nano) string { return dollars(builtin.FormatUSD(amount)) },
	"dollars":  dollars,
	"clock":    clock,
	"ago":      func(t, now time.Time) string { return ago(now.Sub(t)) },
	"short":    extensions.Abbreviate,
	"segment":  url.PathEscape,
	"quoted":   ShellQuoted,
	"join":     strings.Join,
	"share":    share,
	"permille": func(part, whole int64) int64 { return max(1, 1000*part/whole) },
	"list":     func(items ...any) []any { return items },
	"negate":   func(amount abi.Nano) abi.Nano { return -amount },
	"less":     func(amount, other abi.Nano) abi.Nano { return amount - other },
	"million":  func(price abi.Nano) string { return dollars(builtin.FormatUSD(price * 1_000_000)) },
	"plus":     func(a int, b uint64) int { return a + int(b) },
	"deref":    func(f *float64) float64 { return *f },
	"once":     rand.Text, // a form that is sent twice is acted on once
}

// count groups the digits of an integer by threes.
func count(n any) string {
	text := fmt.Sprint(n)
	if f, ok := n.(float64); ok {
		if math.IsNaN(f) {
			return "–"
		}
		text = strconv.FormatFloat(f, 'f', 0, 64)
	}
	digits, sign := strings.CutPrefix(text, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	if sign {
		return "−" + digits
	}
	return digits
}

// decimal has three significant digits.
func decimal(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v != 0 && math.Abs(v) < 100:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return count(math.Round(v))
}

// seconds is a duration in the unit that suits it.
func seconds(s float64) string {
	switch {
	case math.IsNaN(s):
		return "–"
	case s < 1e-3:
		return decimal(s*1e6) + " µs"
	case s < 1:
		return decimal(s*1e3) + " ms"
	}
	return decimal(s) + " s"
}

// byteSize is a size in binary units.
func byteSize(n any) string {
	v, err := strconv.ParseFloat(fmt.Sprint(n), 64)
	if err != nil || math.IsNaN(v) {
		return "–"
	}
	unit := 0
	for v >= 1024 && unit < 4 {
		v, unit = v/1024, unit+1
	}
	return decimal(v) + " " + []string{"B", "KiB", "MiB", "GiB", "TiB"}[unit]
}

// dollars puts the sign before a decimal text of dollars.
func dollars(text string) string {
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		return "−$" + rest
	}
	return "$" + text
}

// clock is a time in UTC to the second; a dash for none.
func clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// share is a part of a whole, in percent.
func share(part, whole uint64) string {
	if whole == 0 {
		return "–"
	}
	return decimal(100*float64(part)/float64(whole)) + " %"
}

// ShellQuoted is a word as a shell takes it.
func ShellQuoted(word string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:@%+,=", c)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// parsePages makes the templates: each page is the frame with its own blocks.
func parsePages() map[string]*template.Template {
	frame := template.Must(template.New("frame").Funcs(formats).ParseFS(pages, "pages/frame.html"))
	all := map[string]*template.Template{}
	entries, err := pages.ReadDir("pages")
	if err != nil {
		panic(err) // the folder is embedded
	}
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".html"); name != "frame" {
			all[name] = template.Must(template.Must(frame.Clone()).ParseFS(pages, "pages/"+e.Name()))
		}
	}
	return all
}
