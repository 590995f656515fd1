package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/lazyregexp"
)

// vote is one answer to an approval.
type vote struct {
	// leave is true when the person gave none.
	leave  bool
	allow  bool
	scope  palyrav1.ApprovalScope
	match  palyrav1.GrantMatch
	ttl    time.Duration
	reason string
}

// The limits of a timeboxed yes; the gateway holds them too.
const (
	shortestGrant = time.Minute
	longestGrant  = 7 * 24 * time.Hour
)

// request is the vote as the gateway takes it. digest is that of the call that
// was shown to the person.
func (v vote) request(approvalID, digest string) *palyrav1.DecideApprovalRequest {
	req := &palyrav1.DecideApprovalRequest{
		ApprovalId: approvalID, Allow: v.allow, Reason: v.reason,
		ShownDigest: digest, Surface: "cli",
	}
	if !v.allow {
		return req
	}
	req.Scope, req.Match = v.scope, v.match
	if v.ttl > 0 {
		req.Ttl = durationpb.New(v.ttl)
	}
	return req
}

// check refuses what the gateway would refuse, with the flag to mend.
func (v vote) check() error {
	switch {
	case !v.allow && strings.TrimSpace(v.reason) == "":
		return usage("a no needs a reason").WithRemedy("Say why: --deny --reason TEXT.")
	case !v.allow:
		return nil
	case v.scope == palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED && (v.ttl < shortestGrant || v.ttl > longestGrant):
		return usage("a timeboxed yes needs a time from 1m to 7d").WithRemedy("Say how long: --allow timeboxed --for 30m.")
	case v.scope != palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED && v.ttl != 0:
		return usage("a time belongs to a timeboxed yes only").WithRemedy("Use --allow timeboxed --for %s.", span(v.ttl))
	case v.scope == palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE && v.match > palyrav1.GrantMatch_GRANT_MATCH_EXACT:
		return usage("a yes for once covers this exact call").WithRemedy("Leave --match away, or use --allow session.")
	}
	return nil
}

const voteQuestion = `
  o                       allow this call once
  s [exact|subject|tool]  allow until the session ends
  t TIME [exact|...]      allow for a time, such as t 30m
  d REASON                deny
  l                       leave it pending
`

// askVote asks until the answer can be read. The call stands once more right
// above the answer, since what was shown before may have scrolled away.
func (a *app) askVote(ctx context.Context, about *palyrav1.Approval) (vote, error) {
	question := voteQuestion + visibleLine(summaryOf(about)) + "\nanswer> "
	for {
		line, err := a.ask(ctx, question)
		if err != nil {
			return vote{}, err
		}
		v, err := parseVote(line)
		if err == nil {
			err = v.checkUnlessLeft()
		}
		if err == nil {
			return v, nil
		}
		a.say("%v", err)
	}
}

func (v vote) checkUnlessLeft() error {
	if v.leave {
		return nil
	}
	return v.check()
}

// parseVote reads a typed answer. An empty line is none.
func parseVote(line string) (vote, error) {
	words := strings.Fields(line)
	if len(words) > 0 && words[0] == "allow" {
		words = words[1:]
	}
	if len(words) == 0 {
		return vote{}, usage("no answer; type one of o, s, t, d, l")
	}
	rest := words[1:]
	switch words[0] {
	case "o", "once":
		return scopeVote(palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE, 0, rest)
	case "s", "session":
		return scopeVote(palyrav1.ApprovalScope_APPROVAL_SCOPE_SESSION, 0, rest)
	case "t", "timeboxed":
		if len(rest) == 0 {
			return vote{}, usage("say how long, such as t 30m")
		}
		ttl, err := parseSpan(rest[0])
		if err != nil {
			return vote{}, err
		}
		return scopeVote(palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED, ttl, rest[1:])
	case "d", "deny":
		return vote{reason: strings.Join(rest, " ")}, nil
	case "y", "yes", "n", "no":
		return vote{}, usage("%q does not say enough; type o to allow once, s for the session, t TIME for a time, d REASON to deny, l to leave it", words[0])
	case "l", "leave":
		return vote{leave: true}, nil
	}
	return vote{}, usage("%q is no answer; type one of o, s, t, d, l", words[0])
}

func scopeVote(scope palyrav1.ApprovalScope, ttl time.Duration, rest []string) (vote, error) {
	v := vote{allow: true, scope: scope, ttl: ttl}
	if len(rest) == 0 {
		return v, nil
	}
	match, err := parseEnum[palyrav1.GrantMatch]("match", rest[0])
	if err != nil {
		return vote{}, err
	}
	if len(rest) > 1 {
		return vote{}, usage("%q is too much; nothing follows the matcher", rest[1])
	}
	v.match = match
	return v, nil
}

var dayForm = lazyregexp.New(`^(\d{1,3})d$`)

// parseSpan is time.ParseDuration with days.
func parseSpan(s string) (time.Duration, error) {
	if m := dayForm.FindStringSubmatch(s); m != nil {
		var days int
		if _, err := fmt.Sscan(m[1], &days); err == nil {
			return time.Duration(days) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, usage("%q is no time; write it as 30m, 2h or 3d", s)
	}
	return d, nil
}

// deciders are the built-in roles that answer approvals under the default
// policies. It only chooses whether to ask; the gateway decides who may.
var deciders = []string{"owner", "admin", "operator"}

// asksFor reports whether an approval is about a call of this principal, made
// by itself or on its behalf.
func asksFor(v *palyrav1.Approval, principal string) bool {
	return v.GetRequestedBy() == principal || v.GetOnBehalfOf() == principal
}

// severalUsers reports whether more than one user may sign in. Like mayDecide
// it only chooses whether to ask; when it cannot be known, a person is asked.
func (g *gateway) severalUsers(ctx context.Context) bool {
	reply, err := g.access.ListMembers(ctx, &palyrav1.ListMembersRequest{})
	users := 0
	for _, m := range reply.GetMembers() {
		if strings.HasPrefix(m.GetPrincipal(), "user:") && !m.GetDisabled() {
			users++
		}
	}
	return err == nil && users > 1
}

// mayDecide reports whether it makes sense to ask this caller.
func mayDecide(c *palyrav1.Identity) bool {
	return strings.HasPrefix(c.GetPrincipal(), "user:") &&
		slices.ContainsFunc(c.GetRoles(), func(r string) bool { return slices.Contains(deciders, r) })
}
