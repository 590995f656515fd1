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
	// Leave is true when the person gave none.
	Leave bool
	Allow bool
	Scope palyrav1.ApprovalScope
	Match palyrav1.GrantMatch
	TTL   time.Duration
	// Uses bounds how many more calls a standing yes lets through; 0 does not.
	Uses   int64
	Reason string
}

// The limits of a timeboxed yes; the gateway holds them too.
const (
	shortestGrant = time.Minute
	longestGrant  = 7 * 24 * time.Hour
)

// Request is the vote as the gateway takes it. digest is that of the call that
// was shown to the person.
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

// Command is the command line that casts the vote on the call of an approval.
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

// typedSpan is a duration as somebody would type it: 30m.
func typedSpan(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// Check refuses what the gateway would refuse, with the flag to mend.
func (v Vote) Check() error {
	switch {
	case !v.Allow && strings.TrimSpace(v.Reason) == "":
		return command.Usage("a no needs a reason").WithRemedy("Say why with --reason TEXT.")
	case !v.Allow:
		return nil
	case v.Scope == palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED && (v.TTL < shortestGrant || v.TTL > longestGrant):
		return command.Usage("a timeboxed yes needs a time from 1m to 7d").WithRemedy("Say how long: --allow timeboxed --for 30m.")
	case v.Scope != palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED && v.TTL != 0:
		return command.Usage("a time belongs to a timeboxed yes only").WithRemedy("Use --allow timeboxed --for %s.", printer.Span(v.TTL))
	case v.Scope == palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE && v.Match > palyrav1.GrantMatch_GRANT_MATCH_EXACT:
		return command.Usage("a yes for once covers this exact call").WithRemedy("Leave --match away, or use --allow session.")
	case v.Scope == palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE && v.Uses != 0:
		return command.Usage("a yes for once has one use").WithRemedy("Add a time, such as --for 30m, or use --allow session.")
	}
	return nil
}

// ReadVote asks until the answer can be read. The call stands once more right
// above the answer, since what was shown before may have scrolled away.
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

// ParseVote reads a typed answer. An empty line is none.
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
			return Vote{}, command.Usage("say how long, such as t 30m")
		}
		ttl, err := command.ParseSpan(rest[0])
		if err != nil {
			return Vote{}, err
		}
		return scopeVote(palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED, ttl, rest[1:])
	case "d", "deny":
		return Vote{Reason: strings.Join(rest, " ")}, nil
	case "y", "yes", "n", "no":
		return Vote{}, command.Usage("%q does not say enough; type o to allow once, s for the session, t TIME for a time, d REASON to deny, l to leave it", words[0])
	case "l", "leave":
		return Vote{Leave: true}, nil
	}
	return Vote{}, command.Usage("%q is no answer; type one of o, s, t, d, l", words[0])
}

func scopeVote(scope palyrav1.ApprovalScope, ttl time.Duration, rest []string) (Vote, error) {
	v := Vote{Allow: true, Scope: scope, TTL: ttl}
	for _, word := range rest {
		if n, ok := parseUses(word); ok && v.Uses == 0 {
			v.Uses = n
			continue
		}
		if v.Match != 0 {
			return Vote{}, command.Usage("%q is too much; a matcher and a number of uses such as x3 are all that follows", word)
		}
		match, err := printer.ParseEnum[palyrav1.GrantMatch]("match", word)
		if err != nil {
			return Vote{}, err
		}
		v.Match = match
	}
	return v, nil
}

// asksFor reports whether an approval is about a call of this principal, made
// by itself or on its behalf.
func asksFor(v *palyrav1.Approval, principal string) bool {
	return v.GetRequestedBy() == principal || v.GetOnBehalfOf() == principal
}

// severalDecide reports whether more than one user answers approvals. Like
// mayDecide it only chooses whether to ask; when it cannot be known, a person is
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

// mayDecide reports whether it makes sense to ask this caller; the gateway decides
// who may.
func mayDecide(c *palyrav1.Identity) bool {
	return strings.HasPrefix(c.GetPrincipal(), "user:") &&
		slices.ContainsFunc(c.GetRoles(), func(r string) bool { return access.Role(r).Decides() })
}
