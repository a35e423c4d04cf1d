package tariff

import (
	"errors"
	"strconv"
	"strings"

	"corenode/wasm/abi"
)

// ErrDecimal means that a text is not a plain decimal number, or that it is
// not a whole number of the unit asked for.
var ErrDecimal = errors.New("not an exact decimal amount")

const (
	usdPlaces   = 9 // a dollar is 10^9 nano-dollars
	pricePlaces = 3 // a dollar per million tokens is 10^3 nano-dollars per token
)

// ParsePrice reads a price in dollars per million tokens, such as "0.24", as
// nano-dollars per token. It refuses a price that is not a whole number of
// them (more than three decimals), and one below zero.
func ParsePrice(text string) (abi.Nano, error) {
	n, err := parseDecimal(text, pricePlaces)
	if n < 0 {
		err = ErrPrice
	}
	return abi.Nano(n), err
}

// ParseUSD reads an amount in dollars, such as "12.50" or "-0.000000001",
// as nano-dollars. It refuses more than nine decimals.
func ParseUSD(text string) (abi.Nano, error) {
	n, err := parseDecimal(text, usdPlaces)
	return abi.Nano(n), err
}

// FormatUSD writes an amount in dollars with at least two decimals and no
// more than it needs. ParseUSD reads it back to the same amount.
func FormatUSD(amount abi.Nano) string {
	sign, n := "", uint64(amount)
	if amount < 0 {
		sign, n = "-", -n // two's complement: right for the smallest amount too
	}
	digits := strconv.FormatUint(n, 10)
	if missing := usdPlaces + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	whole, part := digits[:len(digits)-usdPlaces], digits[len(digits)-usdPlaces:]
	part = part[:2] + strings.TrimRight(part[2:], "0")
	return sign + whole + "." + part
}

// parseDecimal reads [-]digits[.digits] as an integer of 10^-places units.
// Exponents, signs other than one leading minus, spaces and separators are refused.
func parseDecimal(text string, places int) (int64, error) {
	unsigned, negative := strings.CutPrefix(text, "-")
	whole, part, dot := strings.Cut(unsigned, ".")
	part = strings.TrimRight(part, "0")
	if whole == "" || dot && strings.HasSuffix(text, ".") || len(part) > places || !isDigits(whole+part) {
		return 0, ErrDecimal
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", places-len(part)), 10, 64)
	if err != nil {
		return 0, ErrOverflow
	}
	if negative {
		n = -n
	}
	return n, nil
}

func isDigits(text string) bool {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
