package ask

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/access"
	"palyra/internal/core/text"
)

// Vote is one answer to an approval.
type Vote struct {
	// Leave is true if the user gave no answer.
	Leave bool
	Allow bool
	Scope palyrav1.ApprovalScope
	Match palyrav1.GrantMatch
	TTL   time.Duration
	// Uses limits the further calls of a standing approval; 0 means no limit.
	Uses   int64
	Reason string
}

// The limits of a timeboxed approval, which the gateway also checks.
const (
	shortestGrant = time.Minute
	longestGrant  = 7 * 24 * time.Hour
)

// Request returns the vote as an API request. digest is the digest of the displayed call.
func (v Vote) Request(approvalID, digest string) *palyrav1.DecideApprovalRequest {
	req := &palyrav1.DecideApprovalRequest{
		ApprovalId: approvalID, Allow: v.Allow, Reason: v.Reason,
		ShownDigest: digest, Surface: "cli",
	}
	if !v.Allow {
		return req
	}
	req.Scope, req.Match, req.Uses = v.Scope, v.Match, v.Uses
	if v.TTL > 0 {
		req.Ttl = durationpb.New(v.TTL)
	}
	return req
}

// Command returns the command line that casts the vote on the call of an approval.
func (v Vote) Command(about *palyrav1.Approval) string {
	words := []string{"palyra", "approvals", "decide", about.GetApprovalId()}
	if v.Allow {
		words = append(words, "--allow", printer.Enum(v.Scope))
	} else {
		words = append(words, "--deny", "--reason", v.Reason)
	}
	if v.TTL > 0 {
		words = append(words, "--for", typedSpan(v.TTL))
	}
	if v.Match != 0 {
		words = append(words, "--match", printer.Enum(v.Match))
	}
	if v.Uses > 0 {
		words = append(words, "--uses", strconv.FormatInt(v.Uses, 10))
	}
	return text.ShellQuote(append(words, "--digest", about.GetCallDigest()))
}

// typedSpan formats a duration as typed on a command line: 30m.
func typedSpan(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// Check refuses votes that the gateway would refuse, with the flag to correct.
func (v Vote) Check() error {
	switch {
	case !v.Allow && strings.TrimSpace(v.Reason) == "":
		return command.Usage("a denial requires a reason").WithRemedy("Add --reason TEXT.")
	case !v.Allow:
		return nil
	case v.Scope == palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED && (v.TTL < shortestGrant || v.TTL > longestGrant):
		return command.Usage("a timeboxed approval requires a duration from 1m to 7d").WithRemedy("Add a duration: --allow timeboxed --for 30m.")
	case v.Scope != palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED && v.TTL != 0:
		return command.Usage("a duration applies only to a timeboxed approval").WithRemedy("Use --allow timeboxed --for %s.", printer.Span(v.TTL))
	case v.Scope == palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE && v.Match > palyrav1.GrantMatch_GRANT_MATCH_EXACT:
		return command.Usage("a single approval covers only this exact call").WithRemedy("Omit --match, or use --allow session.")
	case v.Scope == palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE && v.Uses != 0:
		return command.Usage("a single approval has one use").WithRemedy("Add a duration, such as --for 30m, or use --allow session.")
	}
	return nil
}

// ReadVote asks until the answer is valid. It prints the summary of the call directly above the
// prompt, because the display may have scrolled away.
func ReadVote(ctx context.Context, a *client.App, about *palyrav1.Approval) (Vote, error) {
	question := answers(about) + SummaryLines(about) + "answer> "
	for {
		line, err := a.Ask(ctx, question)
		if err != nil {
			return Vote{}, err
		}
		if strings.TrimSpace(line) == "?" {
			Show(a, about)
			continue
		}
		v, err := ParseVote(line)
		if err == nil {
			err = v.checkUnlessLeft(about)
		}
		if err == nil {
			return v, nil
		}
		a.Say("%v", err)
	}
}

func (v Vote) checkUnlessLeft(about *palyrav1.Approval) error {
	if v.Leave {
		return nil
	}
	if err := v.Check(); err != nil {
		return err
	}
	return v.CheckOffered(about)
}

// ParseVote parses a typed answer. An empty line is not an answer.
func ParseVote(line string) (Vote, error) {
	words := strings.Fields(line)
	if len(words) > 0 && words[0] == "allow" {
		words = words[1:]
	}
	if len(words) == 0 {
		return Vote{}, command.Usage("no answer; type one of o, s, t, d, l")
	}
	rest := words[1:]
	switch words[0] {
	case "o", "once":
		return scopeVote(palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE, 0, rest)
	case "s", "session":
		return scopeVote(palyrav1.ApprovalScope_APPROVAL_SCOPE_SESSION, 0, rest)
	case "t", "timeboxed":
		if len(rest) == 0 {
			return Vote{}, command.Usage("add a duration, such as t 30m")
		}
		ttl, err := command.ParseSpan(rest[0])
		if err != nil {
			return Vote{}, err
		}
		return scopeVote(palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED, ttl, rest[1:])
	case "d", "deny":
		return Vote{Reason: strings.Join(rest, " ")}, nil
	case "y", "yes", "n", "no":
		return Vote{}, command.Usage("%q is incomplete; type o to allow once, s for the session, t TIME for a time, d REASON to deny, l to leave it", words[0])
	case "l", "leave":
		return Vote{Leave: true}, nil
	}
	return Vote{}, command.Usage("%q is not a valid answer; type one of o, s, t, d, l", words[0])
}

func scopeVote(scope palyrav1.ApprovalScope, ttl time.Duration, rest []string) (Vote, error) {
	v := Vote{Allow: true, Scope: scope, TTL: ttl}
	for _, word := range rest {
		if n, ok := parseUses(word); ok && v.Uses == 0 {
			v.Uses = n
			continue
		}
		if v.Match != 0 {
			return Vote{}, command.Usage("%q is not expected; only a matcher and a number of uses such as x3 may follow", word)
		}
		match, err := printer.ParseEnum[palyrav1.GrantMatch]("match", word)
		if err != nil {
			return Vote{}, err
		}
		v.Match = match
	}
	return v, nil
}

// asksFor reports whether an approval is for a call of this principal, made by itself or on its
// behalf.
func asksFor(v *palyrav1.Approval, principal string) bool {
	return v.GetRequestedBy() == principal || v.GetOnBehalfOf() == principal
}

// severalDecide reports whether more than one user answers approvals. Like mayDecide, it only
// determines whether to ask; if the members are unknown, it returns false and the user is
// asked.
func severalDecide(ctx context.Context, g *client.Gateway) bool {
	reply, err := g.Access.ListMembers(ctx, &palyrav1.ListMembersRequest{})
	deciders := 0
	for _, m := range reply.GetMembers() {
		if m.GetDecides() {
			deciders++
		}
	}
	return err == nil && deciders > 1
}

// mayDecide reports whether this caller may be asked; the gateway checks the actual vote.
func mayDecide(c *palyrav1.Identity) bool {
	return strings.HasPrefix(c.GetPrincipal(), "user:") &&
		slices.ContainsFunc(c.GetRoles(), func(r string) bool { return access.Role(r).Decides() })
}
