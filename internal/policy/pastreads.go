package policy

import (
	"slices"

	"palyra/internal/tool"
)

// PastReads is what the policies of a set read of the past of a session, and
// of the clock. A verdict stays good as long as none of that changes.
type PastReads struct {
	CallsInRun, InFlight, ToolsUsed, SecretsRead, Tainted, BytesOut bool
	// Now is true when a policy reads the time.
	Now bool
}

// ReadsOfPast returns what any policy of the set reads.
func (s *Set) ReadsOfPast() PastReads { return s.past }

// Differ reports whether facts differ in something that is read.
func (r PastReads) Differ(a, b tool.SessionFacts) bool {
	return r.CallsInRun && a.CallsInRun != b.CallsInRun || r.InFlight && a.InFlight != b.InFlight ||
		r.Tainted && a.Tainted != b.Tainted || r.BytesOut && a.BytesOut != b.BytesOut ||
		r.ToolsUsed && !slices.Equal(a.ToolsUsed, b.ToolsUsed) || r.SecretsRead && !slices.Equal(a.SecretsRead, b.SecretsRead)
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

// allOfPast reads everything.
var allOfPast = PastReads{true, true, true, true, true, true, true}

// add adds one place that is read: "context.session.tainted". The context or
// the session as a whole is all of it.
func (r *PastReads) add(chain []string) {
	switch {
	case len(chain) == 0 || chain[0] != "context":
		return
	case len(chain) == 1:
		*r = allOfPast
		return
	case chain[1] == "now":
		r.Now = true
		return
	case chain[1] != "session":
		return
	case len(chain) == 2:
		now := r.Now
		*r = allOfPast
		r.Now = now
		return
	}
	for name, field := range map[string]*bool{
		"calls_in_run": &r.CallsInRun, "in_flight": &r.InFlight, "tools_used": &r.ToolsUsed,
		"secrets_read": &r.SecretsRead, "tainted": &r.Tainted, "bytes_out": &r.BytesOut,
	} {
		if name == chain[2] {
			*field = true
		}
	}
}
