package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/call/policy/internal/schema"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/text"
)

var quoted = lazyregexp.New("`([^`]+)`")

var entityText = lazyregexp.New(`^([A-Za-z_:]+)::"(.*)"$`)

// locate converts a message of the validator, which has no position below the policy, to a
// finding at the token that it is about.
func (l *linter) locate(p *compiled, m message) finding.Finding {
	name := ""
	if q := quoted.FindStringSubmatch(m.text); q != nil {
		name = q[1]
	}
	switch {
	case strings.HasPrefix(m.text, "unrecognized action"):
		return l.unknownAction(p, name)
	case strings.HasPrefix(m.text, "unrecognized entity type"):
		f := p.At(p.Find(name), finding.SeverityError, finding.CodeUnknownName, "unknown entity type %s", name)
		f.Help = finding.DidYouMean(name, l.entityTypes())
		return f
	case strings.HasPrefix(m.text, "attribute"):
		return l.unknownAttribute(p, name, m)
	case strings.HasPrefix(m.text, "unable to guarantee safety of access to optional attribute"):
		return l.unguarded(p, name, m)
	case strings.HasPrefix(m.text, noAction):
		return l.notApplicable(p)
	}
	return p.At(l.culprit(p, m), finding.SeverityError, finding.CodeType, "%s%s", m.text, forActions(m.actions))
}

func (l *linter) unknownAction(p *compiled, name string) finding.Finding {
	id := name
	if m := entityText.FindStringSubmatch(name); m != nil {
		id = m[2]
	}
	f := p.At(p.Find(id), finding.SeverityError, finding.CodeUnknownName, "unknown action %s", id)
	f.Help = finding.DidYouMean(id, l.set.vocab.actionNames())
	if tool, ok := strings.CutPrefix(id, names.ToolPrefix); ok && f.Help == "" {
		f.Help = "no tool named " + tool + " is pinned"
	}
	return f
}

func (l *linter) notApplicable(p *compiled) finding.Finding {
	f := p.At(p.Find("action"), finding.SeverityError, finding.CodeNeverApplies,
		"the scope fits no action: no action takes this principal and this resource")
	if eq, ok := p.AST.Action.(expr.ScopeEq); ok && l.isGroup(eq.Entity) {
		f.Help = "it is a group of actions: write `action in " + eq.Entity.String() + "`"
	}
	return f
}

// isGroup reports whether an action has no context.
func (l *linter) isGroup(uid types.EntityUID) bool {
	a, ok := l.set.vocab.schema.Actions[uid]
	return ok && a.AppliesTo == nil
}

// unknownAttribute finds the access that the message is about and lists the existing
// attributes.
func (l *linter) unknownAttribute(p *compiled, name string, m message) finding.Finding {
	at := l.deepest(p, m)
	last := name[strings.LastIndexByte(name, '.')+1:]
	if at == nil {
		return p.At(p.Find(last), finding.SeverityError, finding.CodeUnknownName, "%s%s", m.text, forActions(m.actions))
	}
	parent := "that"
	var known []string
	if chain := at.Chain(); chain != nil {
		parent = strings.Join(chain[:len(chain)-1], ".")
		known = l.attributes(p, chain[:len(chain)-1])
	}
	f := p.At(at.At, finding.SeverityError, finding.CodeUnknownName, "%s has no attribute %s%s", parent, last, forActions(m.actions))
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
func (l *linter) unguarded(p *compiled, path string, m message) finding.Finding {
	var at *expr.Tree
	for _, cond := range p.Conditions() {
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
	place := p.Find(last)
	guard := "has " + last
	if at != nil {
		place = at.At
		chain := at.Chain()
		guard = strings.Join(chain[:len(chain)-1], ".") + " has " + last
	}
	f := p.At(place, finding.SeverityError, finding.CodeUnguarded, "%s is optional and may be missing%s", path, forActions(m.actions))
	f.Help = "write `" + guard + " && ...` before it"
	return f
}

// culprit finds the token of an error that does not name one.
func (l *linter) culprit(p *compiled, m message) expr.Token {
	at := l.deepest(p, m)
	if at == nil {
		return p.Head
	}
	if strings.HasPrefix(m.text, "unexpected type: expected Bool") {
		// The operation reports an operand: find it.
		for _, k := range at.Kids {
			if l.raisesAs(p, []expr.ConditionNode{expr.WhenNode(k.Node)}, m) {
				return k.At
			}
		}
	}
	return at.At
}

// deepest finds the smallest expression that raises the message on its own. Each candidate is
// validated as the single element of a set, where every type fits.
func (l *linter) deepest(p *compiled, m message) *expr.Tree {
	var found *expr.Tree
	for _, cond := range p.Conditions() {
		if found == nil {
			found = l.deepestIn(p, cond.Body, m)
		}
	}
	return found
}

func (l *linter) deepestIn(p *compiled, t *expr.Tree, m message) *expr.Tree {
	if !l.raises(p, t, m) {
		return nil
	}
	for _, k := range t.Kids {
		if at := l.deepestIn(p, k, m); at != nil {
			return at
		}
	}
	return t
}

func (l *linter) raises(p *compiled, t *expr.Tree, m message) bool {
	return l.raisesAs(p, []expr.ConditionNode{expr.AnyTypeNode(t.Node)}, m)
}

func (l *linter) raisesAs(p *compiled, conditions []expr.ConditionNode, m message) bool {
	probe := *p.AST
	probe.Conditions = conditions
	err := l.set.vocab.forScope(p.AST.Action).Policy("", &probe)
	if err == nil {
		return false
	}
	return slices.ContainsFunc(mergeActions(messagesOf(err)), func(other message) bool { return other.text == m.text })
}

// entityTypes lists the entity types of the schema.
func (l *linter) entityTypes() []string {
	var out []string
	for t := range l.set.vocab.schema.Entities {
		out = append(out, string(t))
	}
	slices.Sort(out)
	return out
}

// attributes lists the attributes of a chain such as context.args, over all actions and types
// that the policy's scope can match, sorted.
func (l *linter) attributes(p *compiled, chain []string) []string {
	names := map[string]bool{}
	for _, root := range l.roots(p, chain[0]) {
		record, ok := l.descend(root, chain[1:])
		if !ok {
			continue
		}
		for name := range record {
			names[string(name)] = true
		}
	}
	return keysOf(names)
}

// roots returns the shapes that a variable can have.
func (l *linter) roots(p *compiled, variable string) []schema.ResolvedRecord {
	var out []schema.ResolvedRecord
	entities := l.set.vocab.schema.Entities
	for _, uid := range l.actionsOf(p) {
		applies := l.set.vocab.schema.Actions[uid].AppliesTo
		switch variable {
		case "context":
			out = append(out, applies.Context)
		case "principal":
			for _, t := range applies.Principals {
				out = append(out, entities[t].Shape)
			}
		case "resource":
			for _, t := range applies.Resources {
				out = append(out, entities[t].Shape)
			}
		}
	}
	return out
}

func (l *linter) descend(at schema.ResolvedRecord, path []string) (schema.ResolvedRecord, bool) {
	for _, name := range path {
		attribute, ok := at[types.String(name)]
		if !ok {
			return nil, false
		}
		switch t := attribute.Type.(type) {
		case schema.ResolvedRecord:
			at = t
		case schema.ResolvedEntity:
			at = l.set.vocab.schema.Entities[types.EntityType(t)].Shape
		default:
			return nil, false
		}
	}
	return at, true
}
