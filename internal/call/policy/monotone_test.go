package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/check"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
)

// approvalExpression returns a random condition over context.approval.
func (w writer) approvalExpression(depth int) string {
	if depth > 0 && w.r.IntN(3) > 0 {
		a, b := w.approvalExpression(depth-1), w.approvalExpression(depth-1)
		switch w.r.IntN(5) {
		case 0:
			return fmt.Sprintf("!(%s)", a)
		case 1:
			return fmt.Sprintf("(if %s then %s else %s)", w.pick(a, "context.protected"), a, b)
		default:
			return fmt.Sprintf("(%s %s %s)", a, w.pick("&&", "||", "==", "!="), b)
		}
	}
	number := w.pick("context.approval.approvers", "context.approval.by_role.security", "context.approval.age_seconds",
		"context.approval.approvers + context.approval.by_role.owner", "context.approval.approvers - context.approval.by_role.owner",
		"context.approval.approvers * 2", "context.approval.approvers * -1", "-context.approval.age_seconds", "context.risk")
	return w.pick(
		"context.approval.granted", "context.approval.standing", "context.protected", "true", "false",
		fmt.Sprintf("(%s %s %d)", number, w.pick("<", "<=", ">", ">=", "==", "!="), w.r.IntN(4)),
		fmt.Sprintf("(%d %s %s)", w.r.IntN(4), w.pick("<", "<=", ">", ">="), number),
		fmt.Sprintf("context.approval.votes.%s", w.pick(w.contains(), w.contains(), "isEmpty()")),
		"[1, 2].contains(context.approval.approvers)",
	)
}

func (w writer) contains() string {
	vote := func() string {
		return fmt.Sprintf(`{role: %q, surface: %q, paired: %s, present: %s}`, w.pick("*", "security", "owner"),
			w.pick("cli", "console"), w.pick("true", "false"), w.pick("true", "false"))
	}
	return w.pick("contains("+vote()+")", "containsAny(["+vote()+", "+vote()+"])", "containsAll(["+vote()+", "+vote()+"])")
}

func (w writer) ballot(i int) ballot {
	b := ballot{user: access.User(fmt.Sprint("u", i)), age: time.Duration(w.r.IntN(4)) * time.Second,
		paired: w.r.IntN(2) == 0, present: w.r.IntN(2) == 0, surfaces: []access.Surface{"cli", "console"}[:1+w.r.IntN(2)]}
	for _, r := range []access.Role{"security", "owner"} {
		if w.r.IntN(2) == 0 {
			b.roles = append(b.roles, r)
		}
	}
	return b
}

// history returns a history in which some voters created other voters.
func (w writer) history() provenance.History {
	var h provenance.History
	for range w.r.IntN(4) {
		h = append(h, provenance.Act{
			Member: access.User(fmt.Sprint("u", w.r.IntN(3))), Kind: provenance.Made, By: []access.Principal{access.User(fmt.Sprint("u", w.r.IntN(3)))},
		})
	}
	return h
}

// stronger returns a ballot that exceeds b in some respect and is weaker in none.
func (w writer) stronger(b ballot) ballot {
	switch w.r.IntN(5) {
	case 0:
		b.roles = []access.Role{"security", "owner"}
	case 1:
		b.surfaces = surfaces
	case 2:
		b.paired = true
	case 3:
		b.present = true
	case 4:
		b.age = 0
	}
	return b
}

// FuzzMonotone: for every policy that the lint accepts, a stronger approval never revokes the
// permission of a weaker one. Negative control: some policies that the lint refuses violate
// this.
func FuzzMonotone(f *testing.F) {
	for i := range uint64(10) {
		f.Add(i)
	}
	cfg := world()
	s, _ := build(cfg, nil)
	f.Fuzz(func(t *testing.T, seed uint64) {
		w := writer{rand.New(rand.NewPCG(seed, 2))}
		for range 50 {
			tryMonotone(t, s, w)
		}
	})
}

func tryMonotone(t *testing.T, s *Set, w writer) (refused, broken bool) {
	t.Helper()
	effect, clause := w.pick("permit", "forbid"), w.pick("when", "unless")
	text := fmt.Sprintf("%s(principal, action in Action::\"tool.execute\", resource) %s { %s };", effect, clause, w.approvalExpression(3))
	policies, found := expr.Parse("f", text, false)
	if finding.HasErrors(found) {
		t.Fatalf("%s: %v", text, found)
	}
	p := compile(policies[0])
	refused = finding.HasErrors(check.Monotone(p.Policy))
	for range 20 {
		is := w.history().Controllers().Independence()
		requester := access.User(fmt.Sprint("u", w.r.IntN(4)))
		weak := make([]ballot, w.r.IntN(3))
		for i := range weak {
			weak[i] = w.ballot(i)
		}
		strong := append([]ballot(nil), weak...)
		for i := range strong {
			strong[i] = w.stronger(strong[i])
		}
		if w.r.IntN(2) == 0 || len(weak) == 0 {
			fresh := everywhere().voter(9, "owner")
			strong = append(strong, fresh)
		}
		standing := w.r.IntN(2) == 0
		before, ok1 := helpful(p, s.voting.tally.facts(is, requester, weak, standing))
		// A grant is weaker than a fresh vote, but not stronger than no vote.
		stands := standing && len(weak) > 0 && w.r.IntN(2) == 0
		after, ok2 := helpful(p, s.voting.tally.facts(is, requester, strong, stands))
		if !ok1 || !ok2 || !before || after {
			continue
		}
		broken = true
		if !refused {
			t.Errorf("a stronger approval hurts, and the lint let it pass:\n%s\nweak %+v\nstrong %+v", text, weak, strong)
		}
	}
	return refused, broken
}

// helpful reports whether a policy supports the call: a permit that applies, or a forbid that
// does not.
func helpful(p *compiled, approval types.Record) (helps, ok bool) {
	view := &expr.Partial{
		Env: expr.Env{Context: types.NewRecord(types.RecordMap{
			"approval": approval, "protected": types.True, "risk": types.Long(2),
		})},
		Known: expr.Prefixes([]string{"context"}),
	}
	t := view.Applies(p.Policy)
	return (t == expr.Yes) == p.Permits(), t != expr.Maybe
}

func TestMonotoneLintIsNeeded(t *testing.T) {
	t.Parallel()
	s, _ := build(world(), nil)
	passed, refusedAndBroken := 0, 0
	for seed := range uint64(150) {
		refused, broken := tryMonotone(t, s, writer{rand.New(rand.NewPCG(seed, 3))})
		if !refused {
			passed++
		}
		if refused && broken {
			refusedAndBroken++
		}
	}
	if passed < 20 || refusedAndBroken < 20 {
		t.Errorf("%d policies passed and %d refused ones did harm; the test says nothing", passed, refusedAndBroken)
	}
}
