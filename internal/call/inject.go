package call

import (
	"context"
	"fmt"
	"strings"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// settleInjections decides, one by one, whether the program of the call gets the secrets that
// the call names. It runs after the answer to the call and before the verdict is settled, since
// approvals may take long. Each secret is its own authorization, of the action secret.inject,
// and grants do not apply. The first denial denies the call.
func (a *authorization) settleInjections(ctx context.Context) error {
	if a.verdict.Effect() == policy.Deny || !a.answer.Allowed() || a.budget.Used > a.budget.Limit {
		return nil
	}
	for n := len(a.injected); n < len(a.plan.Injections); n++ {
		one, err := a.injection(a.plan.Injections[n], a.counted.Facts())
		if err != nil {
			return err
		}
		// The events that led to the approval request are durable before it is made.
		one.pending, a.pending = a.pending, Entry{}
		err = one.settle(ctx)
		one.pending, a.pending = Entry{}, one.pending
		if err != nil {
			return err
		}
		a.waited = a.waited || one.waited
		if !one.letThrough() {
			a.refusedBy(one)
			return nil
		}
		a.injected = append(a.injected, one)
	}
	return a.injectionsHold(ctx)
}

// refusedBy makes the denial of a secret the denial of the call.
func (a *authorization) refusedBy(one *authorization) {
	a.releaseInjections()
	a.Approver.Release(a.answer)
	if a.answer = one.answer; one.verdict.Effect() == policy.Deny {
		a.verdict, a.answer = one.verdict, approval.Answer{}
	}
}

// injectionsHold judges the secrets again: facts may have changed while an early one waited for
// the others.
func (a *authorization) injectionsHold(ctx context.Context) error {
	for _, one := range a.injected {
		settled, err := one.settleNow(ctx)
		if err != nil {
			return err
		}
		a.pending.Drafts = append(a.pending.Drafts, one.pending.Drafts...)
		one.pending = Entry{}
		if !settled || !one.letThrough() {
			a.releaseInjections()
			return reason.Errorf(reason.FactsChanged, "judging the secrets of the call: facts changed while approvals were pending")
		}
	}
	return nil
}

func (a *authorization) releaseInjections() {
	for _, one := range a.injected {
		a.Approver.Release(one.answer)
	}
	a.injected = nil
}

// useInjections consumes the answers immediately before the call is decided. If an answer was
// revoked in the meantime, the call is refused.
func (a *authorization) useInjections(ctx context.Context) error {
	if !a.letThrough() {
		a.releaseInjections()
		return nil
	}
	for _, one := range a.injected {
		if !usesAnswer(&one.answer) {
			continue
		}
		if err := a.flush(ctx); err != nil {
			return err
		}
		if err := a.Approver.Consume(context.WithoutCancel(ctx), one.answer); err != nil {
			if answerLost(err) == nil {
				err = unwritten(err)
			}
			return err
		}
	}
	return nil
}

// checkValid returns nil if the caller may proceed and no required answer was revoked.
func (a *authorization) checkValid(ctx context.Context, answer approval.Answer) error {
	if err := a.callersStand(); err != nil {
		return err
	}
	if err := a.Approver.Recheck(ctx, answer); err != nil {
		return err
	}
	for _, one := range a.injected {
		if err := a.Approver.Recheck(ctx, one.answer); err != nil {
			return err
		}
	}
	return nil
}

// injectArguments is the part of a secret's approval binding that replaces the arguments. The
// executable, its arguments and the other members come from the call's binding.
type injectArguments struct {
	Inject tool.Injection `json:"inject"`
	// Call is the digest of the call.
	Call string `json:"call_digest"`
}

// injection builds the authorization of one secret of the call, in a session with these facts.
func (a *authorization) injection(i tool.Injection, facts tool.SessionFacts) (*authorization, error) {
	arguments, err := canonical.Marshal(injectArguments{i, a.digest})
	if err != nil {
		return nil, err
	}
	one := &authorization{
		Pipeline: a.Pipeline, sub: a.sub, observe: a.observe, counted: a.counted, ran: a,
		proposal: a.proposal, plan: a.plan, request: a.request, budget: a.budget,
		subjectType: approval.SubjectSecretAccess, subjectID: fmt.Sprintf("vault://%s@%d", i.Secret, i.Version),
	}
	one.proposal.Input, one.proposal.Tool.SecretPaths = arguments, nil
	one.proposal.Tool.Title = "Give the secret vault://" + i.Secret + " to a program"
	if i.Server != "" {
		one.proposal.Tool.Title = "Give the secret vault://" + i.Secret + " to the upstream server " + i.Server
	}
	if i.Skill != "" {
		one.proposal.Tool.Title = "Give the secret vault://" + i.Secret + " to the guest of the skill " + i.Skill
	}
	one.plan.Injections, one.plan.Files, one.plan.Subject, one.plan.SubjectCovers = nil, nil, "", ""
	one.plan.Binding.Arguments = arguments
	one.plan.Preview = injectPreview(a.proposal, a.plan, i)
	if one.digest, err = one.plan.Binding.Digest(); err != nil {
		return nil, err
	}
	one.request.Args, one.request.Injection, one.request.Time = nil, &i, time.Now().UTC()
	one.request.SessionFacts = facts
	return one, nil
}

// injectPreview describes the requester, the secret, its destination and the duration.
func injectPreview(p tool.Proposal, plan tool.Plan, i tool.Injection) tool.Preview {
	who := p.Caller.Principal.String()
	if p.Caller.OnBehalfOf != p.Caller.Principal && !p.Caller.OnBehalfOf.IsZero() {
		who += ", for " + p.Caller.OnBehalfOf.String() + ","
	}
	where := "in its variable " + i.Env
	switch {
	case i.File != "" && i.Env != "":
		where = "in the file " + i.File + ", which its variable " + i.Env + " names"
	case i.File != "":
		where = "in the file " + i.File
	case i.Skill != "":
		where = "when it asks for it"
	}
	what := "program"
	if i.Skill != "" {
		what = "guest"
	}
	reach := "The " + what + " reaches no host."
	if plan.Facts.EgressMode != "strict" {
		reach = "The " + what + " has the network of the machine: nothing bounds where the secret can go."
	} else if len(plan.Facts.EgressHosts) > 0 {
		reach = "The secret can go to every host that the " + what + " may reach: " + strings.Join(plan.Facts.EgressHosts, ", ") + "."
	}
	recipient, until := plan.Binding.Executable.Path, "the call ends"
	yes := "An approval covers this call only: another version of the secret, another program or other arguments need a new approval. The value is removed from the program's output, unless the program encodes it."
	if i.Server != "" {
		recipient, until = fmt.Sprintf("the upstream server %s (%s)", i.Server, recipient), "the server stops"
		yes = "An approval covers this start only, and all calls of the server until it stops: the next start needs a new approval. The value is removed from the server's output, unless the server encodes it."
	}
	if i.Skill != "" {
		recipient, until = "the guest of the skill "+i.Skill, "the call ends and the worker of the guest is killed"
		yes = "An approval covers this call only: another version of the secret, another version of the skill or other arguments need a new approval. The value is removed from the guest's results, unless the guest encodes it."
	}
	notes := []string{"The call: " + plan.Preview.Summary, reach, yes}
	if i.Note != "" {
		notes = append(notes, "Its owner's note: "+i.Note)
	}
	return tool.Preview{
		Summary: fmt.Sprintf("%s wants %s to have the secret vault://%s, version %d, as it is, %s, until %s, which is after %s at the latest.",
			who, recipient, i.Secret, i.Version, where, until, i.Within),
		Notes: notes,
	}
}
