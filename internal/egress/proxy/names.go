package proxy

import (
	"net/netip"
	"sync"

	"palyra/internal/egress"
)

// lookups are the names under wildcard rules that palyrad has looked up for a program. Each name
// carries data to the name servers of its suffix, so it counts as sent bytes.
type lookups struct {
	mu   sync.Mutex
	paid map[egress.Host]bool
}

// queries is the number of queries for one name: one for the addresses of each family.
const queries = 2

// sentBy returns the bytes of the queries for a name, in the encoding of RFC 1035, section 3.1.
func sentBy(h egress.Host) int64 { return queries * int64(len(h.String())+2) }

// payForName counts the queries for the name of a target, which the dialer looks up once, and
// records them as an entry of their own. If the budget of sent bytes does not cover them, it decides
// the connection's entry and returns false: the name must not be looked up.
func (v *service) payForName(t egress.Target, entry *egress.Entry) bool {
	if answer, _ := v.allowed.Rules.Match(t.Host, t.Port); answer != egress.Allowed || !v.allowed.Rules.ByWildcard(t.Host) {
		return true // a denied name is not looked up, and the operator wrote the others
	}
	v.lookups.mu.Lock()
	defer v.lookups.mu.Unlock()
	if v.lookups.paid[t.Host] {
		return true
	}
	if !v.budget.out.take(sentBy(t.Host)) {
		decide(entry, denied(egress.ReasonBudgetBytesOut))
		return false
	}
	if v.lookups.paid == nil {
		v.lookups.paid = map[egress.Host]bool{}
	}
	v.lookups.paid[t.Host] = true // at most one for each connection, which have a budget
	sent := v.log.Begin(egress.LegName, egress.Target{Host: t.Host})
	sent.Decide(egress.VerdictAllowed, "", egress.Rule{}, netip.Addr{})
	sent.Sent(sentBy(t.Host))
	sent.End()
	return true
}
