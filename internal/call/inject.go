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

// settleSecrets decides, one by one, whether the program of the call gets the secrets that
// the call names. It runs after the answer to the call and before the verdict is settled, since
// approvals may take long. Each secret is its own question, about the action secret.inject, and
// grants do not apply. The first denial denies the call.
func (s *settlement) settleSecrets(ctx context.Context) error {
	if s.verdict.Effect() == policy.Deny || !s.answer.Allowed() || s.budget.Used > s.budget.Limit {
		return nil
	}
	for n := len(s.secrets); n < len(s.plan.Injections); n++ {
		q, err := s.injection(s.plan.Injections[n], s.counted.Facts())
		if err != nil {
			return err
		}
		one := &settlement{evaluated: evaluated{question: q}, budget: s.budget}
		if err := one.run(ctx); err != nil {
			return err
		}
		s.waited = s.waited || one.waited
		if !letThrough(&one.verdict, &one.answer) {
			s.refusedBy(one)
			return nil
		}
		s.secrets = append(s.secrets, one)
	}
	return s.secretsHold(ctx)
}

// refusedBy makes the denial of a secret the denial of the call.
func (s *settlement) refusedBy(one *settlement) {
	s.releaseSecrets()
	s.release()
	if s.answer = one.answer; one.verdict.Effect() == policy.Deny {
		s.verdict, s.answer = one.verdict, approval.Answer{}
	}
}

// secretsHold judges the secrets again: facts may have changed while the others waited.
func (s *settlement) secretsHold(ctx context.Context) error {
	for _, one := range s.secrets {
		settled, err := one.settleNow(ctx)
		if err != nil {
			return err
		}
		if !settled || !letThrough(&one.verdict, &one.answer) {
			s.releaseSecrets()
			return reason.Errorf(reason.FactsChanged, "judging the secrets of the call: facts changed while approvals were pending")
		}
	}
	return nil
}

func (s *settlement) releaseSecrets() {
	for _, one := range s.secrets {
		s.Approver.Release(one.answer)
	}
	s.secrets = nil
}

// useSecrets consumes the answers about the secrets immediately before the call is decided. If an
// answer was revoked in the meantime, the call is refused. A denied call uses none.
func (a *answered) useSecrets(ctx context.Context) error {
	allowed := letThrough(&a.verdict, &a.answer)
	for i := range a.secrets {
		answer := &a.secrets[i]
		switch {
		case !allowed:
			a.Approver.Release(*answer)
			continue
		case !usesAnswer(answer):
			continue
		}
		if err := a.drafts.flush(ctx); err != nil {
			return err
		}
		if err := a.Approver.Consume(context.WithoutCancel(ctx), *answer); err != nil {
			if answerLost(err) == nil {
				err = unwritten(err)
			}
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

// injection builds the question about one secret of the call, in a session with these facts.
func (q *question) injection(i tool.Injection, facts tool.SessionFacts) (*question, error) {
	arguments, err := canonical.Marshal(injectArguments{i, q.digest})
	if err != nil {
		return nil, err
	}
	one := &question{
		scope: q.scope, proposed: q.proposed, ofCall: q, proposal: q.proposal, plan: q.plan, request: q.request,
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
	one.plan.Preview = injectPreview(q.proposal, q.plan, i)
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
