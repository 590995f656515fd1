package explain

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/internal/expr"
)

// Scenario has all inputs of a verdict.
type Scenario = scenario

// Apply applies the steps of the flip, also to the text of policies, and returns the resulting
// scenario.
func (f Flip) Apply(to Scenario) (Scenario, error) {
	to, err := applied(to, f.changes)
	for _, c := range f.changes {
		if err == nil && c.drop != nil {
			err = blankOut(&to, c.drop)
		}
		if c.add != nil {
			to.Config.Sources = append(slices.Clone(to.Config.Sources), policy.Source{Name: c.add.Source.Name, Text: c.add.Source.Text})
		}
	}
	return to, err
}

// blankOut replaces a policy's text in its source with blanks, so that every other policy stays
// on its line.
func blankOut(to *Scenario, p *expr.Policy) error {
	i := slices.IndexFunc(to.Config.Sources, func(src policy.Source) bool {
		return src.Name == p.Source.Name && strings.HasPrefix(src.Text[min(p.Offset, len(src.Text)):], p.Text)
	})
	if i < 0 {
		return fmt.Errorf("the configuration has no source %s with the policy %s", p.Source.Name, p.ID)
	}
	blank := []byte(p.Text)
	for j, b := range blank {
		if b != '\n' {
			blank[j] = ' '
		}
	}
	src := to.Config.Sources[i]
	to.Config.Sources = slices.Clone(to.Config.Sources)
	to.Config.Sources[i].Text = src.Text[:p.Offset] + string(blank) + src.Text[p.Offset+len(p.Text):]
	return nil
}
