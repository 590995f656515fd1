package policy

import (
	"errors"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
)

// checkPolicies validates every policy strictly and runs the lints. A policy
// that does not validate is not linted: its first mistake would only be named
// twice.
func (s *Set) checkPolicies() []Finding {
	l := &linter{set: s, reach: make(map[string][]types.EntityUID)}
	var findings []Finding
	for _, p := range s.policies {
		found := l.checkNames(p)
		found = append(found, l.validate(p)...)
		if !hasErrors(found) {
			found = append(found, l.lint(p)...)
		}
		findings = append(findings, found...)
	}
	if !hasErrors(findings) {
		findings = append(findings, l.checkShadows()...)
	}
	for i := range findings {
		findings[i].Message = strings.ReplaceAll(findings[i].Message, "__cedar::internal::", "")
	}
	return findings
}

// linter checks the policies of one set.
type linter struct {
	set *Set
	// reach remembers the actions that an action scope can match.
	reach map[string][]types.EntityUID
}

func (l *linter) lint(p *compiled) []Finding {
	findings := l.checkHas(p)
	if reaches, _ := l.reachesTools(p); reaches || l.reachesCommits(p) {
		findings = append(findings, p.checkMonotone()...)
	}
	findings = append(findings, l.checkWaives(p)...)
	findings = append(findings, l.checkHostNetwork(p)...)
	findings = append(findings, l.checkPermitsAll(p)...)
	findings = append(findings, l.checkRisks(p)...)
	findings = append(findings, l.checkSpelling(p)...)
	if !p.builtin && !hasErrors(findings) {
		findings = append(findings, l.checkApplies(p)...)
	}
	return findings
}

// actionsOf returns the actions with a context that p's scope can match.
func (l *linter) actionsOf(p *compiled) []types.EntityUID {
	key, wanted := scopeActions(p.ast.Action)
	if known, ok := l.reach[key]; ok {
		return known
	}
	var out []types.EntityUID
	for uid, action := range l.set.vocab.schema.Actions {
		if action.AppliesTo != nil && (wanted == nil || l.set.vocab.actionMatches(uid, wanted)) {
			out = append(out, uid)
		}
	}
	slices.SortFunc(out, compareUID)
	l.reach[key] = out
	return out
}

// validate runs cedar-go's strict validator and gives each error its place.
func (l *linter) validate(p *compiled) []Finding {
	err := l.set.vocab.forScope(p.ast.Action).Policy("", p.ast)
	if err == nil {
		return nil
	}
	messages := mergeActions(messagesOf(err))
	var findings []Finding
	for _, m := range messages {
		// An unknown name in the scope also leaves no action; once is enough.
		if len(messages) > 1 && strings.HasPrefix(m.text, noAction) {
			continue
		}
		findings = append(findings, l.locate(p, m))
	}
	return findings
}

// noAction begins the message for a scope that fits no action.
const noAction = "unable to find an applicable action"

func messagesOf(err error) []string {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range joined.Unwrap() {
		out = append(out, messagesOf(e)...)
	}
	return out
}

// message is one kind of error, with the actions for which it was raised.
type message struct {
	text    string
	raw     string
	actions []string
}

// mergeActions joins messages that differ only in the action they name.
func mergeActions(raw []string) []message {
	var out []message
	for _, text := range raw {
		plain, action := cutAction(text)
		i := slices.IndexFunc(out, func(m message) bool { return m.text == plain })
		if i < 0 {
			out = append(out, message{text: plain, raw: text})
			i = len(out) - 1
		}
		if action != "" && action != toolPrefix+unknownTool && !slices.Contains(out[i].actions, action) {
			out[i].actions = append(out[i].actions, action)
		}
	}
	for i := range out {
		slices.Sort(out[i].actions)
	}
	return out
}

// cutAction takes ` in context for Action::"name"` out of a message.
func cutAction(text string) (plain, action string) {
	const mark = ` for Action::"`
	before, after, ok := strings.Cut(text, mark)
	if !ok {
		return text, ""
	}
	name, rest, ok := strings.Cut(after, `"`)
	if !ok {
		return text, ""
	}
	return before + rest, name
}

// forActions says for which actions a finding holds, in few words.
func forActions(actions []string) string {
	switch len(actions) {
	case 0:
		return ""
	case 1, 2, 3:
		return " for " + strings.Join(actions, ", ")
	default:
		return " for " + strings.Join(actions[:2], ", ") + " and " + count(len(actions)-2, "more action")
	}
}
