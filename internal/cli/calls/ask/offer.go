package ask

import (
	"cmp"
	"fmt"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

// answers lists the possible answers to an approval. It describes the coverage of each standing
// approval, so that the user reads it before the answer.
func answers(about *palyrav1.Approval) string {
	p := &printer.Page{}
	p.Gap()
	once := "allow this call once"
	if aboutGateway(about) {
		once = "allow this one change"
	}
	p.Hang(2, "o          ", once)
	if s := offer(about, palyrav1.ApprovalScope_APPROVAL_SCOPE_SESSION); s != nil {
		p.Hang(2, "s          ", "also until the session ends, "+printer.Span(s.GetLongest().AsDuration())+" at most: "+s.GetBy())
	}
	if t := offer(about, palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED); t != nil {
		p.Hang(2, "t 30m      ", "also for a time: "+t.GetBy())
		if why := about.GetPrompt().GetExactOnly(); why != "" {
			p.Hang(4, "", "s and t cover only this exact call: "+why)
		} else {
			p.Hang(4, "", "s and t cover this exact call; an additional word covers more:")
		}
		for _, one := range wider(about) {
			p.Hang(4, fmt.Sprintf("%-9s", printer.Enum(one.GetMatch())), one.GetWhat())
		}
		p.Hang(4, "x3       ", "for 3 more calls and no others")
	}
	p.Line("  d REASON   deny        l  leave it pending        ?  show everything")
	return p.String()
}

// offer returns the narrowest offered answer with a scope; nil if none exists.
func offer(about *palyrav1.Approval, scope palyrav1.ApprovalScope) *palyrav1.ApprovalScopeOffer {
	for _, one := range about.GetPrompt().GetScopes() {
		if one.GetScope() == scope {
			return one
		}
	}
	return nil
}

// wider returns the timed offers that cover more than the exact call.
func wider(about *palyrav1.Approval) []*palyrav1.ApprovalScopeOffer {
	var list []*palyrav1.ApprovalScopeOffer
	for _, one := range about.GetPrompt().GetScopes() {
		if one.GetScope() == palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED && one.GetMatch() > palyrav1.GrantMatch_GRANT_MATCH_EXACT {
			list = append(list, one)
		}
	}
	return list
}

// Covers describes the coverage and duration of an approval: "this call, and after it any git
// command, any arguments, in workspace here, by all runs and calls of user:ada, for up to 30m, 3
// times". It is "" for a single approval, and if the gateway does not offer it.
func (v Vote) Covers(about *palyrav1.Approval) string {
	match := cmp.Or(v.Match, palyrav1.GrantMatch_GRANT_MATCH_EXACT)
	for _, one := range about.GetPrompt().GetScopes() {
		if one.GetScope() != v.Scope || one.GetMatch() != match || one.GetWhat() == "" {
			continue
		}
		text := "this call, and after it " + one.GetWhat() + ", " + one.GetBy() + ", for up to " + printer.Span(cmp.Or(v.TTL, one.GetLongest().AsDuration()))
		if v.Uses > 0 {
			text += ", " + times(v.Uses)
		}
		return text
	}
	return ""
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// CheckOffered refuses an approval that is wider than the gateway offers for this call.
func (v Vote) CheckOffered(about *palyrav1.Approval) error {
	if why := about.GetPrompt().GetExactOnly(); v.Allow && why != "" && v.Match > palyrav1.GrantMatch_GRANT_MATCH_EXACT {
		return command.Usage("a standing approval of this call covers only the exact call: %s", why).
			WithRemedy("Omit %s.", printer.Enum(v.Match))
	}
	return nil
}

// parseUses parses "x3".
func parseUses(word string) (n int64, ok bool) {
	digits, found := strings.CutPrefix(word, "x")
	if !found || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	_, err := fmt.Sscan(digits, &n)
	return n, err == nil && n > 0
}
