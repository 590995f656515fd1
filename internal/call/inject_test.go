package call_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// injecting makes the program of every call require secrets.
func injecting(list ...tool.Injection) func(*world) {
	return func(w *world) {
		for _, i := range list {
			w.run.Found.Binding.Environment = append(w.run.Found.Binding.Environment, fmt.Sprintf("%s=injected:secret:%s@%d", i.Env, i.Secret, i.Version))
		}
		w.run.Found.Injections = list
	}
}

var (
	awsSecret = tool.Injection{Secret: "global/aws", Version: 3, Env: "AWS_KEY", Within: "2m0s", Note: "for deployments"}
	deployKey = tool.Injection{Secret: "user:alice/deploy", Version: 1, File: "/home/tool/.secrets/deploy", Within: "2m0s"}
)

// TestSecretForAProgram: each secret requires a separate approval before the program runs. The
// prompt names the requester, the secret, the recipient and the lifetime. The only scope is
// once.
func TestSecretForAProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended, injecting(awsSecret, deployKey))
	r := w.begin(runCall())
	rec := r.asked()
	if rec.SubjectType != approval.SubjectSecretAccess || rec.SubjectID != "vault://global/aws@3" || rec.Severity != "high" || rec.Subject != "" {
		t.Errorf("asked about %s %s, subject %q, severity %s", rec.SubjectType, rec.SubjectID, rec.Subject, rec.Severity)
	}
	p := rec.Prompt
	text := p.Summary + "\n" + strings.Join(p.Notes, "\n")
	for _, want := range []string{
		runCall().Caller.Principal.String(), runCall().Caller.OnBehalfOf.String(), "vault://global/aws, version 3", "variable AWS_KEY", "2m0s", "for deployments", w.run.Found.Binding.Executable.Path,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the prompt:\n%s", want, text)
		}
	}
	if len(p.Scopes) != 1 || p.Scopes[0].Scope != approval.Once || p.LastAllowed {
		t.Errorf("scopes %+v, last %v", p.Scopes, p.LastAllowed)
	}
	var bound struct {
		Inject tool.Injection
		Call   string `json:"call_digest"`
	}
	if err := json.Unmarshal(rec.Binding.Arguments, &bound); err != nil || bound.Inject != awsSecret || bound.Call == "" || bound.Call == rec.CallDigest {
		t.Errorf("it binds to %s, %v", rec.Binding.Arguments, err)
	}
	if _, err := w.Desk.Votes.Decide(t.Context(), bob, rec.ID, approval.Ballot{Allow: true, Scope: approval.Session, Match: approval.MatchTool}); reason.Of(err) != reason.InvalidInput {
		t.Errorf("a grant for a secret: %v", err)
	}
	w.vote(bob, rec, yes)
	second := r.asked()
	if second.SubjectID != "vault://user:alice/deploy@1" || !strings.Contains(second.Prompt.Summary, deployKey.File) {
		t.Errorf("then %s: %s", second.SubjectID, second.Prompt.Summary)
	}
	w.run.Ran(t, 0)
	w.vote(bob, second, yes)
	o, err := r.wait()
	if err != nil || !o.Decision.Allowed || o.Decision.ApprovalID != "" {
		t.Fatalf("%+v, %v", o.Decision, err)
	}
	w.run.Ran(t, 1)
	w.checkEvidence(o)
	if n := countOf(w.codes(0), event.Consumed); n != 2 {
		t.Errorf("%d answers were used up", n)
	}
}

func countOf(codes []event.Code, one event.Code) (n int) {
	for _, c := range codes {
		if c == one {
			n++
		}
	}
	return n
}

// TestSecretDenied: a denial of any secret denies the call, and no approval is consumed.
func TestSecretDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended, injecting(awsSecret, deployKey))
	r := w.begin(runCall())
	w.vote(bob, r.asked(), yes)
	rec := r.asked()
	w.vote(bob, rec, no)
	o, err := r.wait()
	if err != nil || o.Decision.Allowed || o.Decision.Reason != reason.ApprovalDenied || o.Decision.ApprovalID != rec.ID || !strings.Contains(o.Decision.Message, "secret") {
		t.Fatalf("%+v, %v", o.Decision, err)
	}
	w.run.Ran(t, 0)
	if slices.Contains(w.codes(0), event.Consumed) {
		t.Error("an answer was used up")
	}
}

// TestSecretByPolicy: no approval is requested for a secret that policy forbids or allows.
func TestSecretByPolicy(t *testing.T) {
	t.Parallel()
	forbid := func(w *world) {
		w.options.Policies += `@id("no-aws") @reason("not for programs") forbid(principal, action == Action::"secret.inject", resource) when { resource.name == "global/aws" };`
	}
	w := newWorld(t, unattended, injecting(awsSecret), forbid)
	_, o, err := w.call(runCall())
	if err != nil || o.Decision.Allowed || o.Decision.Reason != reason.PolicyDenied || len(o.Decision.Determining) != 1 || o.Decision.Determining[0].ID != "no-aws" {
		t.Fatalf("%+v, %v", o.Decision, err)
	}
	w.run.Ran(t, 0)

	allow := func(w *world) {
		w.options.Policies += `@id("aws") @waives("approval: test") permit(principal, action == Action::"secret.inject", resource) when { resource.name == "global/aws" };`
	}
	w = newWorld(t, unattended, injecting(awsSecret), allow)
	_, o, err = w.call(runCall())
	if err != nil || !o.Decision.Allowed {
		t.Fatalf("%+v, %v", o.Decision, err)
	}
	w.wantJournal(0, event.Proposed, event.Evaluated, event.Evaluated, event.Decided, event.Attested)
	w.checkEvidence(o)
}

// TestSecretForAGuest: the prompt names the guest that receives the secret, the allowed hosts
// and the lifetime. Policies can read the skill of the guest.
func TestSecretForAGuest(t *testing.T) {
	t.Parallel()
	wanted := tool.Injection{Secret: "global/aws", Version: 3, Skill: "web", Within: "30s"}
	r := newWorld(t, unattended, injecting(wanted)).begin(runCall())
	p := r.asked().Prompt
	text := p.Title + "\n" + p.Summary + "\n" + strings.Join(p.Notes, "\n")
	for _, want := range []string{"the guest of the skill web", "vault://global/aws, version 3", "worker of the guest is killed", "30s", "The guest has the network of the machine"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the prompt:\n%s", want, text)
		}
	}
	for _, wrong := range []string{"variable", "program"} {
		if strings.Contains(text, wrong) {
			t.Errorf("the prompt says %q of a guest:\n%s", wrong, text)
		}
	}
	r.leave()
	_, _ = r.wait()
	forbid := func(w *world) {
		w.options.Policies += `@id("no-web") @reason("not for web") forbid(principal, action == Action::"secret.inject", resource) when { context.injection.skill == "web" };`
	}
	other := wanted
	other.Skill = "notes"
	for _, i := range []tool.Injection{wanted, other} {
		e := must.Get(newWorld(t, unattended, injecting(i), forbid).Evaluate(t.Context(), runCall()))(t)
		if len(e.Secrets) != 1 || (e.Secrets[0].Verdict.Effect() == policy.Deny) != (i.Skill == "web") {
			t.Errorf("for %s: %+v", i.Skill, e.Secrets)
		}
	}
}

// TestDryRunOfSecrets: a dry run reports the verdict about each secret, unless the call itself
// is denied.
func TestDryRunOfSecrets(t *testing.T) {
	t.Parallel()
	forbid := func(w *world) {
		w.options.Policies += `@id("no-aws") @reason("not for programs") forbid(principal, action == Action::"secret.inject", resource) when { resource.name == "global/aws" };`
	}
	w := newWorld(t, unattended, injecting(awsSecret, deployKey), forbid)
	e := must.Get(w.Evaluate(t.Context(), runCall()))(t)
	if e.Verdict.Effect() != policy.Allow || len(e.Secrets) != 2 || e.Secrets[0].Injection != awsSecret || e.Secrets[1].Injection != deployKey {
		t.Fatalf("%s, secrets %+v", e.Verdict.Effect(), e.Secrets)
	}
	if v := e.Secrets[0].Verdict; v.Effect() != policy.Deny || len(v.Determining()) != 1 || v.Determining()[0].ID != "no-aws" {
		t.Errorf("of the first secret: %s by %v", v.Effect(), v.Determining())
	}
	if v := e.Secrets[1].Verdict; v.Effect() != policy.Ask {
		t.Errorf("of the second secret: %s", v.Effect())
	}
	w.run.Ran(t, 0)
	if w.wantJournal(0); t.Failed() {
		t.Error("a dry run left something")
	}

	never := func(w *world) {
		w.options.Policies += `@id("never") @reason("test") forbid(principal, action == Action::"tool.execute/process.run", resource);`
	}
	w = newWorld(t, unattended, injecting(awsSecret), never)
	if e := must.Get(w.Evaluate(t.Context(), runCall()))(t); e.Verdict.Effect() != policy.Deny || len(e.Secrets) > 0 {
		t.Errorf("%s, secrets %+v", e.Verdict.Effect(), e.Secrets)
	}
}

// TestGrantGivesNoSecret: a grant for the program does not cover a secret for it.
func TestGrantGivesNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant(runCall(), forAnHour)
	injecting(awsSecret)(w)
	r := w.begin(runCall())
	first := r.asked() // with the secret in its environment, it is a different call
	for first.SubjectType != approval.SubjectSecretAccess {
		w.vote(alice, first, yes)
		first = r.asked()
	}
	w.run.Ran(t, 1)
	w.vote(alice, first, no)
	if o, err := r.wait(); err != nil || o.Decision.Allowed {
		t.Errorf("%+v, %v", o.Decision, err)
	}
	w.run.Ran(t, 1)
}

// TestSecretApprovalRevoked: an approval that is revoked while the call waits for another one is no
// longer valid.
func TestSecretApprovalRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended, injecting(awsSecret, deployKey))
	r := w.begin(runCall())
	first := r.asked()
	w.vote(bob, first, yes)
	second := r.asked()
	if _, err := w.Desk.Records.Revoke(t.Context(), bob, first.ID, "no"); err != nil {
		t.Fatal(err)
	}
	w.vote(bob, second, yes)
	if o, err := r.wait(); o.Decision.Allowed || reason.Of(err) != reason.ApprovalRevoked {
		t.Errorf("%+v, %v", o.Decision, err)
	}
	w.run.Ran(t, 0)
}

// TestEditAsksForSecretsAgain: the answer about a secret is bound to the call. If people edit the
// call after that answer, they are asked about the secret again.
func TestEditAsksForSecretsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unattended, threeUsers, injecting(awsSecret))
	held, times := runCall(), 0
	held.Hold = func(context.Context) error {
		if times++; times == 1 {
			w.reload(needsOne) // from now on the call needs an approval
		}
		return nil
	}
	r := w.begin(held)
	secret := r.asked()
	w.vote(bob, secret, yes)
	rec := r.asked()
	if rec.SubjectID == secret.SubjectID {
		t.Fatalf("asked about %s twice", rec.SubjectID)
	}
	w.vote(carol, must.Get(w.edit(bob, rec, `{"argv":["make","-n"]}`))(t), yes)
	again := r.asked()
	if again.SubjectID != secret.SubjectID || again.CallDigest == secret.CallDigest {
		t.Errorf("asked about %s (%s), want the secret %s of the edited call, not of %s", again.SubjectID, again.CallDigest, secret.SubjectID, secret.CallDigest)
	}
	w.run.Ran(t, 0)
	w.vote(carol, again, yes)
	if o, err := r.wait(); err != nil || !o.Decision.Allowed {
		t.Errorf("%+v, %v", o.Decision, err)
	}
	w.run.Ran(t, 1)
}
