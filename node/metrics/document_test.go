package metrics

import (
	"fmt"
	"strings"
)

// markdown is the tables of the metrics for OPERATING.md.
func markdown() string {
	var b strings.Builder
	for _, s := range Sections() {
		fmt.Fprintf(&b, "**%s**", s.Title)
		if s.Intro != "" {
			b.WriteString(". " + s.Intro)
		}
		b.WriteString("\n\n| series | type | meaning | watch | panel |\n|---|---|---|---|---|\n")
		for i := range s.Metrics {
			m := &s.Metrics[i]
			fmt.Fprintf(&b, "| `%s%s` | %s | %s | %s | %s |\n", m.Name, labels(m), kind(m), meaning(m), m.Watch, shown(m))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func labels(m *Metric) string {
	if len(m.Labels) == 0 {
		return ""
	}
	return "{" + strings.Join(m.Labels, ",") + "}"
}

func kind(m *Metric) string {
	if m.Unit == "" {
		return string(m.Type)
	}
	return string(m.Type) + ", " + m.Unit
}

func meaning(m *Metric) string {
	if m.When == "" {
		return m.Help
	}
	return m.Help + ". Only " + m.When
}

func shown(m *Metric) string {
	if m.Panel != "" {
		return m.Panel
	}
	return "none: " + m.Hidden
}

// alertsMarkdown is the table of the alerts for OPERATING.md.
func alertsMarkdown() string {
	var b strings.Builder
	b.WriteString("| alert | when | for | severity | what it says |\n|---|---|---|---|---|\n")
	for _, a := range Alerts() {
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", a.Name, a.Expr, a.For, severity(a.Urgent), a.Meaning)
	}
	return b.String()
}
