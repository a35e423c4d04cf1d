package template

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

func absolute(in value, _ arguments) value {
	switch {
	case !isNumber(in):
		panic(fmt.Errorf("bad operand type for abs(): %s", typeName(in)))
	case isFloat(in):
		return float(math.Abs(floatOf(in)))
	}
	return fromBig(new(big.Int).Abs(bigOf(in)))
}

// toInteger is the filter int: what is no number is the default.
func toInteger(in value, args arguments) value {
	fallback := args.or(0, "default", 0)
	switch x := in.(type) {
	case float:
		if f := float64(x); math.IsInf(f, 0) || math.IsNaN(f) {
			return fallback
		}
		return fromBig(bigOf(x))
	case string:
		return parseInteger(x, args, fallback)
	}
	if !isNumber(in) {
		return fallback
	}
	return fromBig(bigOf(in))
}

func parseInteger(s string, args arguments, fallback value) value {
	base := integerOf(args.or(1, "base", 10))
	s = strings.TrimFunc(s, isPythonSpace)
	digits := strings.ToLower(s)
	if prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; prefix != "" {
		digits = strings.TrimPrefix(digits, prefix)
	}
	if len(digits) > numberDigitsMax || base < 2 || base > 36 {
		return fallback
	}
	if n, ok := new(big.Int).SetString(digits, base); ok {
		return fromBig(n)
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return fromBig(bigOf(float(f)))
	}
	return fallback
}

// numberDigitsMax bounds the numbers that are read from a string; Python's bound is 4,300.
const numberDigitsMax = 4300

func toFloat(in value, args arguments) value {
	if isNumber(in) {
		return float(floatOf(in))
	}
	if s, ok := in.(string); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(s, isPythonSpace), 64); err == nil || errors.Is(err, strconv.ErrRange) {
			return float(f)
		}
	}
	return args.or(0, "default", float(0))
}

// round is Jinja's: the nearest number of so many decimals, halves to even as
// Python rounds, or the next one up or down.
func round(in value, args arguments) value {
	if !isNumber(in) {
		panic(fmt.Errorf("type %s cannot be rounded", typeName(in)))
	}
	precision, method := max(-308, min(integerOf(args.or(0, "precision", 0)), 308)), text(args.or(1, "method", "common"))
	x, scale := floatOf(in), math.Pow(10, float64(precision))
	switch method {
	case "ceil":
		return float(math.Ceil(x*scale) / scale)
	case "floor":
		return float(math.Floor(x*scale) / scale)
	case "common":
	default:
		panic(errors.New("method must be common, ceil or floor"))
	}
	if !isFloat(in) && precision >= 0 {
		return in
	}
	if precision < 0 {
		return float(math.RoundToEven(x*scale) / scale)
	}
	nearest, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'f', precision, 64), 64) // exact decimals, halves to even
	return float(nearest)
}
