package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
)

func compile(p *expr.Policy) *compiled {
	c := &compiled{Policy: p, reads: contextReads(p), unread: unreadBy(p)}
	c.approval = p.Mentions("context", "approval")
	c.votes = c.approval && p.Mentions("context", "approval", "votes")
	if c.approval {
		c.wants = p.ConditionText(expr.ReadsApproval)
	}
	c.determining = Determining{
		ID: p.ID, File: p.Source.Name, Line: p.Line, Effect: expr.EffectWord(p.Permits()), Condition: p.ConditionText(nil),
		Reason: p.Notes.Reason, Remedy: p.Notes.Remedy, Severity: p.Notes.Severity, AskReason: p.Notes.AskReason,
	}
	return c
}

// contextReads returns the context attributes that a policy's conditions read: all of them if a
// condition reads the context as a whole.
func contextReads(c *expr.Policy) attributes {
	var out attributes
	for _, cond := range c.Conditions() {
		cond.Body.Walk(func(t *expr.Tree) bool {
			if has, ok := t.Node.(expr.NodeHas); ok && isContext(t.Kids[0]) {
				out |= attributeOfName(has.Value)
				return false
			}
			switch chain := t.Chain(); {
			case len(chain) == 0 || chain[0] != "context":
				return true
			case len(chain) == 1:
				out = allAttributes
			default:
				out |= attributeOfName(types.String(chain[1]))
			}
			return false
		})
	}
	return out
}

func isContext(t *expr.Tree) bool {
	v, ok := t.Node.(expr.NodeVariable)
	return ok && v.Name == "context"
}

// pastReads returns the union over the given policies.
func pastReads(policies []*compiled) PastReads {
	var r PastReads
	for _, p := range policies {
		if p.reads&(attrSession|attrNow) == 0 {
			continue
		}
		for _, cond := range p.Conditions() {
			cond.Body.Walk(func(t *expr.Tree) bool {
				chain := t.Chain()
				if has, ok := t.Node.(expr.NodeHas); ok {
					chain = append(t.Kids[0].Chain(), string(has.Value))
				}
				r.add(chain)
				return len(chain) == 0 || chain[0] != "context"
			})
		}
	}
	return r
}

// add adds one place that is read, such as "context.session.tainted". The context or the
// session as a whole adds all its facts.
func (r *PastReads) add(chain []string) {
	if len(chain) == 0 || chain[0] != "context" {
		return
	}
	whole := len(chain) == 1
	r.Now = r.Now || whole || chain[1] == "now"
	for _, p := range contextFacts[attrSession.index()].parts {
		read := whole || chain[1] == "session" && (len(chain) == 2 || chain[2] == string(p.name))
		if read && !slices.Contains(r.session, p.Fact) {
			r.session = append(r.session, p.Fact)
		}
	}
}

func buildIndex(policies []*compiled) *index {
	x := &index{byAction: make(map[types.EntityUID]byResource), policies: policies}
	for i, p := range policies {
		resource, principal := entities.ScopeKey(p.AST.Resource), entities.ScopeKey(p.AST.Principal)
		for _, action := range actionKeys(p.AST.Action) {
			x.add(action, resource, principal, i)
		}
	}
	return x
}

func (x *index) add(action, resource, principal types.EntityUID, i int) {
	resources := x.byAction[action]
	if resources == nil {
		resources = make(byResource)
		x.byAction[action] = resources
	}
	principals := resources[resource]
	if principals == nil {
		principals = make(byPrincipal)
		resources[resource] = principals
	}
	principals[principal] = append(principals[principal], i)
}

// actionKeys returns the keys of an action scope; a set has one key per member.
func actionKeys(scope expr.ScopeNode) []types.EntityUID {
	if s, ok := scope.(expr.ScopeInSet); ok {
		keys := slices.Clone(s.Entities)
		slices.SortFunc(keys, entities.Compare)
		return slices.Compact(keys)
	}
	return []types.EntityUID{entities.ScopeKey(scope)}
}

// mustRead are facts of a call. A permit without an approval covers a call with such a fact
// only if it reads the fact. Otherwise a permit for a harmless command line could also cover a
// harmful call with the same line.
var mustRead = []*Fact{FactNamed("exec.env"), FactNamed("exec.starts"), FactNamed("exec.inline_code")}

// unreadBy returns the facts that p must read to cover a call that has them, but does not. The
// rule applies if p waives an approval. The facts are variables outside the allow list, further
// programs that the program starts, and code that is passed to an interpreter. For a shell
// line, which is itself inline code, context.shell describes its uncertain parts. The permit of
// allow_sensitive_tools covers everything.
func unreadBy(p *expr.Policy) []*Fact {
	if !p.Permits() || p.Notes.Waives == "" || p.Builtin {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(mustRead), func(f *Fact) bool {
		return p.Mentions(append([]string{"context"}, strings.Split(f.Name, ".")...)...)
	})
}

// Unread returns the facts of a call that p must read to cover the call but does not.
func Unread(p *expr.Policy, r *Request) []string {
	if r.Facts.Exec == nil {
		return nil
	}
	var unread []string
	for _, f := range unreadBy(p) {
		if f.isPresent(r) {
			unread = append(unread, f.Name)
		}
	}
	return unread
}
