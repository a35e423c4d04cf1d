package skills

import (
	"fmt"
	"strings"

	"corenode/bench/report"
)

// What the embedded models promise of engine/embedded/promises.jsonl and skills.jsonl. Skills that begin with newPrefix are
// asked in sentences that no training conversation has; schemasSkill has schemas with free strings; loopsSkill has prompts
// that the models are not for.
const (
	newPrefix    = "new "
	schemasSkill = "schemas"
	loopsSkill   = "loops"

	newMin        = 0.95 // at temperature 0, and newMinMini for the smaller model
	newMinMini    = 0.90
	schemasMin    = 0.95
	validCallsMin = 1.0
	rightCallsMin = 0.96
	endedMin      = 0.99
	loopedMax     = 0.01 // below it
)

// promises are the gates of all rounds. A gate of something that no case asked for is missed: it was not measured.
func promises(rounds []Round) (gates report.Gates) {
	for _, r := range rounds {
		name := func(what string) string {
			return fmt.Sprintf("%s, %s: %s", r.Model, temperatureText(r.Temperature), what)
		}
		var asked, schemas, loops Score
		for _, s := range r.Skills {
			switch {
			case strings.HasPrefix(s.Skill, newPrefix):
				asked.Cases += s.Cases
				asked.Right += s.Right
			case s.Skill == schemasSkill:
				schemas = s
			case s.Skill == loopsSkill:
				loops = s
			}
		}
		if r.Temperature == 0 {
			least := newMin
			if strings.HasSuffix(r.Model, "-mini") {
				least = newMinMini
			}
			gates = append(gates, report.AtLeast(name("right in new sentences"), ratio(asked.Right, asked.Cases), least))
		}
		gates = append(gates,
			report.AtLeast(name("schemas that end valid"), schemas.Share, schemasMin),
			report.AtLeast(name("calls valid"), ratio(r.All.ValidCalls, r.All.Calls), validCallsMin),
			report.AtLeast(name("calls right"), ratio(r.All.Called, r.All.Wanted), rightCallsMin),
			report.AtLeast(name("answers that end"), r.All.Ended, endedMin),
			report.Gate{Name: name("answers in circles"), Value: loops.Looped, Limit: loopedMax,
				Met: loops.Cases > 0 && loops.Looped < loopedMax})
	}
	return gates
}

func ratio(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
