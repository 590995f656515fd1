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

// settleInjections decides, one by one, whether the program of the call gets the
// secrets that the call names. It comes after the answer to the call and before its
// verdict is settled, since people may take long. Each is an authorization of its own,
// of the action secret.inject, and no grant answers it. The first no is that of the
// call.
func (a *authorization) settleInjections(ctx context.Context) error {
	if a.verdict.Effect() == policy.Deny || !a.answer.Allowed() || a.budget.Used > a.budget.Limit {
		return nil
	}
	for n := len(a.injected); n < len(a.plan.Injections); n++ {
		one, err := a.injection(a.plan.Injections[n], a.counted.Facts())
		if err != nil {
			return err
		}
		// What led to the question is durable before anyone is asked.
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

// refusedBy makes the no to a secret that to the call.
func (a *authorization) refusedBy(one *authorization) {
	a.releaseInjections()
	a.Approver.Release(a.answer)
	if a.answer = one.answer; one.verdict.Effect() == policy.Deny {
		a.verdict, a.answer = one.verdict, approval.Answer{}
	}
}

// injectionsHold judges the secrets once more: what was decided first may have waited
// for the rest.
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
			return reason.Errorf(reason.FactsChanged, "what policy reads changed while people were asked about the secrets of the call")
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

// useInjections uses the answers up, right before the call is decided. An answer that
// was taken back meanwhile refuses the call.
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

// stands reports that the caller may go on, and that no answer which the call has to
// have was taken back.
func (a *authorization) stands(ctx context.Context, answer approval.Answer) error {
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

// injectArguments is what an approval of a secret binds to, beside executable,
// arguments and all else that the binding of the call has.
type injectArguments struct {
	Inject tool.Injection `json:"inject"`
	// Call is the digest of the call.
	Call string `json:"call_digest"`
}

// injection asks about one secret of the call, in a session of these facts.
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

// injectPreview says who wants which secret, where it goes, and for how long.
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
	whom, until := plan.Binding.Executable.Path, "the call ends"
	yes := "A yes is for this call alone: another version of the secret, another program or other arguments are asked again. What the program writes is scrubbed of the value, unless the program hides it."
	if i.Server != "" {
		whom, until = fmt.Sprintf("the upstream server %s (%s)", i.Server, whom), "the server stops"
		yes = "A yes is for this start alone, and every call of the server uses it meanwhile: the next start is asked again. What the server says is scrubbed of the value, unless the program hides it."
	}
	if i.Skill != "" {
		whom, until = "the guest of the skill "+i.Skill, "the call ends and the worker of the guest is killed"
		yes = "A yes is for this call alone: another version of the secret, another version of the skill or other arguments are asked again. What the guest returns is scrubbed of the value, unless the guest hides it."
	}
	notes := []string{"The call: " + plan.Preview.Summary, reach, yes}
	if i.Note != "" {
		notes = append(notes, "Its owner's note: "+i.Note)
	}
	return tool.Preview{
		Summary: fmt.Sprintf("%s wants %s to have the secret vault://%s, version %d, as it is, %s, until %s, which is after %s at the latest.",
			who, whom, i.Secret, i.Version, where, until, i.Within),
		Notes: notes,
	}
}
