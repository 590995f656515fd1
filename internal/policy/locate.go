package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/lazyregexp"
)

var quoted = lazyregexp.New("`([^`]+)`")

var entityText = lazyregexp.New(`^([A-Za-z_:]+)::"(.*)"$`)

// locate turns a message of the validator, which has no place below the
// policy, into a finding at the token that it is about.
func (l *linter) locate(p *compiled, m message) Finding {
	name := ""
	if q := quoted.FindStringSubmatch(m.text); q != nil {
		name = q[1]
	}
	switch {
	case strings.HasPrefix(m.text, "unrecognized action"):
		return l.unknownAction(p, name)
	case strings.HasPrefix(m.text, "unrecognized entity type"):
		f := p.at(p.find(name), SeverityError, CodeUnknownName, "there is no entity type %s", name)
		f.Help = didYouMean(name, l.entityTypes())
		return f
	case strings.HasPrefix(m.text, "attribute"):
		return l.unknownAttribute(p, name, m)
	case strings.HasPrefix(m.text, "unable to guarantee safety of access to optional attribute"):
		return l.unguarded(p, name, m)
	case strings.HasPrefix(m.text, noAction):
		return l.notApplicable(p)
	}
	return p.at(l.culprit(p, m), SeverityError, CodeType, "%s%s", m.text, forActions(m.actions))
}

// find returns the first token after the annotations with that text, as a
// word or as a string.
func (c *compiled) find(name string) token {
	started := false
	for _, t := range c.tokens {
		started = started || t.text == "permit" || t.text == "forbid"
		if started && (t.kind == tokIdent && t.text == name || t.kind == tokString && t.unquoted() == name) {
			return t
		}
	}
	return c.start(SeverityError, "", "").token()
}

// token is a finding's place as a token.
func (f Finding) token() token { return token{line: f.Line, column: f.Column} }

func (l *linter) unknownAction(p *compiled, name string) Finding {
	id := name
	if m := entityText.FindStringSubmatch(name); m != nil {
		id = m[2]
	}
	f := p.at(p.find(id), SeverityError, CodeUnknownName, "there is no action %s", id)
	f.Help = didYouMean(id, l.set.vocab.actionNames())
	if tool, ok := strings.CutPrefix(id, toolPrefix); ok && f.Help == "" {
		f.Help = "no tool named " + tool + " is pinned"
	}
	return f
}

func (l *linter) notApplicable(p *compiled) Finding {
	f := p.at(p.find("action"), SeverityError, CodeNeverApplies,
		"the scope fits no action: no action takes this principal and this resource")
	if eq, ok := p.ast.Action.(scopeEq); ok && l.isGroup(eq.Entity) {
		f.Help = "it is a group of actions: write `action in " + eq.Entity.String() + "`"
	}
	return f
}

// isGroup reports whether an action has no context of its own.
func (l *linter) isGroup(uid types.EntityUID) bool {
	a, ok := l.set.vocab.schema.Actions[uid]
	return ok && a.AppliesTo == nil
}

// unknownAttribute finds the access that the message is about and says which
// attributes there are.
func (l *linter) unknownAttribute(p *compiled, name string, m message) Finding {
	at := l.deepest(p, m)
	last := name[strings.LastIndexByte(name, '.')+1:]
	if at == nil {
		return p.at(p.find(last), SeverityError, CodeUnknownName, "%s%s", m.text, forActions(m.actions))
	}
	parent := "that"
	var known []string
	if chain := at.chain(); chain != nil {
		parent = strings.Join(chain[:len(chain)-1], ".")
		known = l.attributes(p, chain[:len(chain)-1])
	}
	f := p.at(at.at, SeverityError, CodeUnknownName, "%s has no attribute %s%s", parent, last, forActions(m.actions))
	if slices.Contains(known, last) {
		f.Help = "only some of the actions in scope have it: name the action, such as " +
			`action == Action::"tool.execute/<tool>"`
		return f
	}
	f.Help = didYouMean(last, known)
	if f.Help == "" && len(known) > 0 && len(known) <= 40 {
		f.Help = "there are: " + strings.Join(known, ", ")
	}
	return f
}

// unguarded finds the first access to an optional attribute that no has
// stands before.
func (l *linter) unguarded(p *compiled, path string, m message) Finding {
	var at *tree
	for _, cond := range p.conditions() {
		guarded := false
		cond.body.walk(func(t *tree) bool {
			chain := t.chain()
			switch n := t.node.(type) {
			case nodeHas:
				if up := t.kids[0].chain(); up != nil {
					guarded = guarded || strings.HasSuffix(strings.Join(append(up, string(n.Value)), "."), path)
				}
			case nodeAccess:
				if at == nil && !guarded && len(chain) > 1 && strings.Join(chain[1:], ".") == path {
					at = t
				}
			}
			return true
		})
	}
	last := path[strings.LastIndexByte(path, '.')+1:]
	place := p.find(last)
	guard := "has " + last
	if at != nil {
		place = at.at
		chain := at.chain()
		guard = strings.Join(chain[:len(chain)-1], ".") + " has " + last
	}
	f := p.at(place, SeverityError, CodeUnguarded, "%s is optional and may be missing%s", path, forActions(m.actions))
	f.Help = "write `" + guard + " && ...` before it"
	return f
}

// culprit finds the token of an error that names nothing.
func (l *linter) culprit(p *compiled, m message) token {
	at := l.deepest(p, m)
	if at == nil {
		return p.start(SeverityError, "", "").token()
	}
	if strings.HasPrefix(m.text, "unexpected type: expected Bool") {
		// The operation complains about an operand: find which.
		for _, k := range at.kids {
			if l.raisesAs(p, []conditionNode{whenNode(k.node)}, m) {
				return k.at
			}
		}
	}
	return at.at
}

// deepest finds the smallest expression that alone raises the message: it is
// put where any type fits, as the one element of a set, and validated.
func (l *linter) deepest(p *compiled, m message) *tree {
	var found *tree
	for _, cond := range p.conditions() {
		if found == nil {
			found = l.deepestIn(p, cond.body, m)
		}
	}
	return found
}

func (l *linter) deepestIn(p *compiled, t *tree, m message) *tree {
	if !l.raises(p, t, m) {
		return nil
	}
	for _, k := range t.kids {
		if at := l.deepestIn(p, k, m); at != nil {
			return at
		}
	}
	return t
}

func (l *linter) raises(p *compiled, t *tree, m message) bool {
	return l.raisesAs(p, []conditionNode{anyTypeNode(t.node)}, m)
}

func (l *linter) raisesAs(p *compiled, conditions []conditionNode, m message) bool {
	probe := *p.ast
	probe.Conditions = conditions
	err := l.set.vocab.forScope(p.ast.Action).Policy("", &probe)
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

// attributes lists what a chain such as context.args has, over all actions
// and types that the policy's scope can match, sorted.
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
func (l *linter) roots(p *compiled, variable string) []resolvedRecord {
	var out []resolvedRecord
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

func (l *linter) descend(at resolvedRecord, path []string) (resolvedRecord, bool) {
	for _, name := range path {
		attribute, ok := at[types.String(name)]
		if !ok {
			return nil, false
		}
		switch t := attribute.Type.(type) {
		case resolvedRecord:
			at = t
		case resolvedEntity:
			at = l.set.vocab.schema.Entities[types.EntityType(t)].Shape
		default:
			return nil, false
		}
	}
	return at, true
}
