package policy

import (
	"fmt"
	"slices"
	"strings"
)

// change is one step of a flip: how to make it, and how to try it.
type change struct {
	step FlipStep
	// say tells somebody to make it, as an infinitive: "set context.risk to 90".
	say    string
	effort effort
	// key names what changes. Of two changes of one thing the later counts.
	key string
	// edit makes the change. It copies what it writes to.
	edit func(*Scenario) error
	// patch makes it in an environment of Cedar; nil where only a whole
	// evaluation shows what comes of it.
	patch func(*evalEnv)
	// drop and add are the policies that a change of policies is about.
	drop, add *compiled
}

// rehydrates reports whether the change needs another set.
func (c *change) rehydrates() bool { return c.step.Kind == StepEntity || c.step.Kind == StepPolicy }

// merged returns a list of changes with one more.
func merged(list []change, c change) []change {
	out := slices.Clone(list)
	if i := slices.IndexFunc(out, func(other change) bool { return other.key == c.key }); i >= 0 {
		out[i] = c
		return out
	}
	return append(out, c)
}

// costOf orders lists of changes: fewest first, then the easiest.
func costOf(list []change) int {
	cost := 0
	for i := range list {
		cost += 1000 + int(list[i].effort)
	}
	return cost
}

// keyOf names a list of changes with their values.
func keyOf(list []change) string {
	parts := make([]string, len(list))
	for i := range list {
		parts[i] = list[i].key + "=" + list[i].step.Becomes
	}
	slices.Sort(parts)
	return strings.Join(parts, "\x00")
}

// changesAll reports whether list changes everything that those changes do.
func changesAll(list, those []change) bool {
	return !slices.ContainsFunc(those, func(c change) bool {
		return !slices.ContainsFunc(list, func(other change) bool { return other.key == c.key })
	})
}

// flipOf describes changes that lead to a verdict.
func flipOf(changes []change, verdict Effect, policyID string) Flip {
	f := Flip{Verdict: verdict, PolicyID: policyID, changes: changes}
	says := make([]string, len(changes))
	for i, c := range changes {
		f.Steps = append(f.Steps, c.step)
		says[i] = c.say
	}
	then := "the call is allowed"
	if verdict == Ask {
		then = "a person is asked"
	}
	f.advice = fmt.Sprintf("%s, and %s.", strings.Join(says, ", "), then)
	f.Summary = strings.ToUpper(f.advice[:1]) + f.advice[1:]
	return f
}
