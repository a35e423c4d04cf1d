package rules

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"corenode/wasm/abi"
)

// What the store keeps of prices is by model. Where a reload changed them while requests ran, those
// before are there too, under the model and the time until which quotes were made at them.

// pricesKept is how long such are kept: no request runs for longer.
const pricesKept = 25 * time.Hour

// PricesChange is how far ahead the end of prices is put until they are others: more than writing takes.
const PricesChange = 30 * time.Minute

// untilFormat makes times that compare as texts.
const untilFormat = "2006-01-02T15:04:05.000000000Z"

// pricesUntil is the name under which a model's prices are kept that were in force until a time.
// No model id has a line break.
func pricesUntil(model string, at time.Time) string {
	return fmt.Sprintf("%s\n%s", model, at.UTC().Format(untilFormat))
}

// PricesAfter is what is to be kept when prices change from before to now at a time. An end in kept
// that is later was put ahead by a change that did not come about.
func PricesAfter(kept, before, now map[string]abi.Prices, at time.Time) map[string]abi.Prices {
	all := maps.Clone(now)
	oldest, last := at.Add(-pricesKept).UTC().Format(untilFormat), at.UTC().Format(untilFormat)
	for name, p := range kept {
		if _, until, past := strings.Cut(name, "\n"); past && until > oldest && until <= last {
			all[name] = p
		}
	}
	for model, p := range before {
		if now[model] != p {
			all[pricesUntil(model, at)] = p
		}
	}
	return all
}

// PricesAt are the prices of a model at a time, of those that were kept.
func PricesAt(kept map[string]abi.Prices, model string, at time.Time) (abi.Prices, bool) {
	p, ok := kept[model]
	when := at.UTC().Format(untilFormat)
	next := "" // the earliest change after it
	for name, was := range kept {
		if of, until, past := strings.Cut(name, "\n"); past && of == model && until > when && (next == "" || until < next) {
			p, ok, next = was, true, until
		}
	}
	return p, ok
}
