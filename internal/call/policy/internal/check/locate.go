package check

import (
	"slices"
	"strings"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/text"
)

var quoted = lazyregexp.New("`([^`]+)`")

var entityText = lazyregexp.New(`^([A-Za-z_:]+)::"(.*)"$`)

// locator finds the token that a message of the validator about a policy is about.
type locator struct {
	scopes *scopes
	policy *expr.Policy
}

// locate converts a message of the validator, which has no position below the policy, to a
// finding at the token that it is about.
func (l *locator) locate(m message) finding.Finding {
	name := ""
	if q := quoted.FindStringSubmatch(m.text); q != nil {
		name = q[1]
	}
	switch {
	case strings.HasPrefix(m.text, "unrecognized action"):
		return l.unknownAction(name)
	case strings.HasPrefix(m.text, "unrecognized entity type"):
		f := l.policy.At(l.policy.Find(name), finding.SeverityError, finding.CodeUnknownName, "unknown entity type %s", name)
		f.Help = finding.DidYouMean(name, l.scopes.entityTypes())
		return f
	case strings.HasPrefix(m.text, "attribute"):
		return l.unknownAttribute(name, m)
	case strings.HasPrefix(m.text, "unable to guarantee safety of access to optional attribute"):
		return l.unguarded(name, m)
	case strings.HasPrefix(m.text, noAction):
		return l.notApplicable()
	}
	return l.policy.At(l.culprit(m), finding.SeverityError, finding.CodeType, "%s%s", m.text, forActions(m.actions))
}

func (l *locator) unknownAction(name string) finding.Finding {
	id := name
	if m := entityText.FindStringSubmatch(name); m != nil {
		id = m[2]
	}
	f := l.policy.At(l.policy.Find(id), finding.SeverityError, finding.CodeUnknownName, "unknown action %s", id)
	f.Help = finding.DidYouMean(id, l.scopes.actionNames())
	if tool, ok := strings.CutPrefix(id, names.ToolPrefix); ok && f.Help == "" {
		f.Help = "no tool named " + tool + " is pinned"
	}
	return f
}

func (l *locator) notApplicable() finding.Finding {
	f := l.policy.At(l.policy.Find("action"), finding.SeverityError, finding.CodeNeverApplies,
		"the scope fits no action: no action takes this principal and this resource")
	if eq, ok := l.policy.AST.Action.(expr.ScopeEq); ok && l.scopes.isGroup(eq.Entity) {
		f.Help = "it is a group of actions: write `action in " + eq.Entity.String() + "`"
	}
	return f
}

// unknownAttribute finds the access that the message is about and lists the existing
// attributes.
func (l *locator) unknownAttribute(name string, m message) finding.Finding {
	at := l.deepest(m)
	last := name[strings.LastIndexByte(name, '.')+1:]
	if at == nil {
		return l.policy.At(l.policy.Find(last), finding.SeverityError, finding.CodeUnknownName, "%s%s", m.text, forActions(m.actions))
	}
	parent := "that"
	var known []string
	if chain := at.Chain(); chain != nil {
		parent = strings.Join(chain[:len(chain)-1], ".")
		known = l.scopes.attributes(l.policy, chain[:len(chain)-1])
	}
	f := l.policy.At(at.At, finding.SeverityError, finding.CodeUnknownName, "%s has no attribute %s%s", parent, last, forActions(m.actions))
	if slices.Contains(known, last) {
		f.Help = "only some of the actions in scope have it: name the action, such as " +
			`action == Action::"tool.execute/<tool>"`
		return f
	}
	f.Help = finding.DidYouMean(last, known)
	if f.Help == "" && len(known) > 0 {
		f.Help = "the nearest are: " + strings.Join(text.NearestThree(last, known), ", ")
	}
	return f
}

// unguarded finds the first access to an optional attribute without a preceding has.
func (l *locator) unguarded(path string, m message) finding.Finding {
	var at *expr.Tree
	for _, cond := range l.policy.Conditions() {
		guarded := false
		cond.Body.Walk(func(t *expr.Tree) bool {
			chain := t.Chain()
			switch n := t.Node.(type) {
			case expr.NodeHas:
				if up := t.Kids[0].Chain(); up != nil {
					guarded = guarded || strings.HasSuffix(strings.Join(append(up, string(n.Value)), "."), path)
				}
			case expr.NodeAccess:
				if at == nil && !guarded && len(chain) > 1 && strings.Join(chain[1:], ".") == path {
					at = t
				}
			}
			return true
		})
	}
	last := path[strings.LastIndexByte(path, '.')+1:]
	place := l.policy.Find(last)
	guard := "has " + last
	if at != nil {
		place = at.At
		chain := at.Chain()
		guard = strings.Join(chain[:len(chain)-1], ".") + " has " + last
	}
	f := l.policy.At(place, finding.SeverityError, finding.CodeUnguarded, "%s is optional and may be missing%s", path, forActions(m.actions))
	f.Help = "write `" + guard + " && ...` before it"
	return f
}

// culprit finds the token of an error that does not name one.
func (l *locator) culprit(m message) expr.Token {
	at := l.deepest(m)
	if at == nil {
		return l.policy.Head
	}
	if strings.HasPrefix(m.text, "unexpected type: expected Bool") {
		// The operation reports an operand: find it.
		for _, k := range at.Kids {
			if l.raisesAs([]expr.ConditionNode{expr.WhenNode(k.Node)}, m) {
				return k.At
			}
		}
	}
	return at.At
}

// deepest finds the smallest expression that raises the message on its own. Each candidate is
// validated as the single element of a set, where every type fits.
func (l *locator) deepest(m message) *expr.Tree {
	var found *expr.Tree
	for _, cond := range l.policy.Conditions() {
		if found == nil {
			found = l.deepestIn(cond.Body, m)
		}
	}
	return found
}

func (l *locator) deepestIn(t *expr.Tree, m message) *expr.Tree {
	if !l.raises(t, m) {
		return nil
	}
	for _, k := range t.Kids {
		if at := l.deepestIn(k, m); at != nil {
			return at
		}
	}
	return t
}

func (l *locator) raises(t *expr.Tree, m message) bool {
	return l.raisesAs([]expr.ConditionNode{expr.AnyTypeNode(t.Node)}, m)
}

func (l *locator) raisesAs(conditions []expr.ConditionNode, m message) bool {
	probe := *l.policy.AST
	probe.Conditions = conditions
	err := l.scopes.validator(l.policy.AST.Action).Policy("", &probe)
	if err == nil {
		return false
	}
	return slices.ContainsFunc(mergeActions(messagesOf(err)), func(other message) bool { return other.text == m.text })
}
