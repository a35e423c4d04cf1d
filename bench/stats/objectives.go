package stats

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Objective is a bound on one latency of a request.
type Objective struct {
	// Metric is ttft, tpot, e2e, queue, or itl with the percentile of the
	// request's own gaps that is meant: itl_p99, itl_max.
	Metric string        `json:"metric"`
	Limit  time.Duration `json:"limit_ns"`
	share  float64       // of itl
}

// ParseObjectives reads "ttft=500ms,itl_p99=150ms,e2e=10s"; empty for none.
func ParseObjectives(text string) ([]Objective, error) {
	var list []Objective
	for item := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(item) == "" {
			continue
		}
		name, value, _ := strings.Cut(item, "=")
		o := Objective{Metric: strings.TrimSpace(name)}
		var err error
		if o.Limit, err = time.ParseDuration(strings.TrimSpace(value)); err != nil || o.Limit <= 0 {
			return nil, fmt.Errorf("objective %q: want METRIC=DURATION, such as ttft=500ms", item)
		}
		if part, isITL := strings.CutPrefix(o.Metric, "itl_"); isITL {
			if o.share, err = parseShare(part); err != nil {
				return nil, fmt.Errorf("objective %q: %w", item, err)
			}
		} else if !slices.Contains([]string{"ttft", "tpot", "e2e", "queue"}, o.Metric) {
			return nil, fmt.Errorf("objective %q: metrics are ttft, itl_pNN, itl_max, tpot, e2e and queue", item)
		}
		list = append(list, o)
	}
	return list, nil
}

func parseShare(part string) (float64, error) {
	if part == "max" {
		return 1, nil
	}
	digits, ok := strings.CutPrefix(part, "p")
	p, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || p <= 0 || p > 100 {
		return 0, fmt.Errorf("percentile %q: want p50, p99.9 or max", part)
	}
	return p / 100, nil
}

// String writes the objective as it is given on the command line, such as itl_p99=150ms.
func (o Objective) String() string { return o.Metric + "=" + o.Limit.String() }

// met says whether a request that succeeded met all objectives. A latency that
// the request does not have (no second token, no queue time told) misses none,
// except the time to the first token, which is the whole time then.
func met(objectives []Objective, rec *Record) bool {
	for _, o := range objectives {
		value, ok := time.Duration(0), true
		switch o.Metric {
		case "ttft":
			if value, ok = rec.TTFT(); !ok {
				value, ok = rec.E2E(), true
			}
		case "tpot":
			value, ok = rec.TPOT()
		case "e2e":
			value = rec.E2E()
		case "queue":
			value, ok = rec.Queue, rec.Queue >= 0
		default:
			if ok = len(rec.Gaps) > 0; ok {
				value = Percentile(slices.Sorted(slices.Values(rec.Gaps)), o.share)
			}
		}
		if ok && value > o.Limit {
			return false
		}
	}
	return true
}
