package policy

import (
	"slices"

	"palyra/internal/tool"
)

// PastReads is what the policies of a set read of the past of a session, and
// of the clock. A verdict stays good as long as none of that changes.
type PastReads struct {
	// session are the facts of the session that are read.
	session []*Fact
	// Now is true when a policy reads the time.
	Now bool
}

// ReadsOfPast returns what any policy of the set reads.
func (s *Set) ReadsOfPast() PastReads { return s.past }

// Differ reports whether facts differ in something that is read.
func (r PastReads) Differ(a, b tool.SessionFacts) bool {
	was, is := &call{request: Request{SessionFacts: a}}, &call{request: Request{SessionFacts: b}}
	return slices.ContainsFunc(r.session, func(f *Fact) bool { return !f.value(was, nil).Equal(f.value(is, nil)) })
}

// pastReads joins what policies read.
func pastReads(policies []*compiled) PastReads {
	var r PastReads
	for _, p := range policies {
		if p.reads&(attrSession|attrNow) == 0 {
			continue
		}
		for _, cond := range p.conditions() {
			cond.body.walk(func(t *tree) bool {
				chain := t.chain()
				if has, ok := t.node.(nodeHas); ok {
					chain = append(t.kids[0].chain(), string(has.Value))
				}
				r.add(chain)
				return len(chain) == 0 || chain[0] != "context"
			})
		}
	}
	return r
}

// add adds one place that is read: "context.session.tainted". The context or
// the session as a whole is all of it.
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
