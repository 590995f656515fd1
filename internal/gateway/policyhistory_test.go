package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	zs "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/surface/api"
)

// policyDesk is an operator's client of a daemon with a policy directory.
type policyDesk struct {
	*running
	policies palyrav1connect.PolicyServiceClient
}

func openDesk(t *testing.T, cfg *config.Config) policyDesk {
	t.Helper()
	d := start(t, cfg)
	return policyDesk{d, palyrav1connect.NewPolicyServiceClient(d.client(), d.url())}
}

func policyConfigAt(t *testing.T) *config.Config {
	t.Helper()
	cfg := testConfig(t)
	cfg.Policy.Dir = t.TempDir()
	return cfg
}

// forbids returns a policy file that denies one tool.
func forbids(name string) string {
	return fmt.Sprintf("@id(\"own.no-%[1]s\")\n@reason(\"no %[1]s\")\nforbid(principal, action == Action::\"tool.execute/%[1]s\", resource);\n", name)
}

// load writes a file to the policy directory and reloads.
func (d policyDesk) load(name, text string) (string, error) {
	d.t.Helper()
	must.Write(d.t, filepath.Join(d.cfg.Policy.Dir, name), text)
	res, err := d.policies.ReloadPolicy(d.t.Context(), &palyrav1.ReloadPolicyRequest{})
	return res.GetVersion(), err
}

// inForce returns the version in force and whether it is activated.
func (d policyDesk) inForce() (string, bool) {
	d.t.Helper()
	res := must.Get(d.policies.GetPolicy(d.t.Context(), &palyrav1.GetPolicyRequest{}))(d.t)
	return res.GetVersion(), res.GetActivated()
}

func (d policyDesk) notices() string {
	d.t.Helper()
	res := must.Get(palyrav1connect.NewStatusServiceClient(d.client(), d.url()).GetStatus(d.t.Context(), &palyrav1.GetStatusRequest{}))(d.t)
	return strings.Join(res.GetNotices(), "\n")
}

// want checks the version in force, and whether it is activated.
func (d policyDesk) want(when, version string, activated bool) {
	d.t.Helper()
	got, is := d.inForce()
	if got != version || is != activated {
		d.t.Errorf("%s: %s is in force (activated: %v), want %s (%v)", when, got, is, version, activated)
	}
	if said := strings.Contains(d.notices(), "is activated"); said != activated {
		d.t.Errorf("%s: the notices are %q", when, d.notices())
	}
}

// runBriefly starts a daemon that should refuse to start. A daemon that does start is stopped
// after must.Patience and returns no error.
func runBriefly(t *testing.T, cfg *config.Config) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
	defer cancel()
	return Run(ctx, Options{Config: cfg, Log: slog.New(slog.DiscardHandler)})
}

// An activated version stays in force when the directory or the members change, and after a
// restart, until a reload.
func TestActivation(t *testing.T) {
	t.Parallel()
	cfg := policyConfigAt(t)
	d := openDesk(t, cfg)
	first := must.Get(d.load("10-own.cedar", forbids("echo")))(t)
	second := must.Get(d.load("10-own.cedar", forbids("sleep")))(t)
	d.want("after two reloads", second, false)

	res := must.Get(d.policies.ActivatePolicy(t.Context(), &palyrav1.ActivatePolicyRequest{Version: first[:20]}))(t)
	if res.GetVersion() != first || res.GetWasVersion() != second || !res.GetChanged() {
		t.Errorf("activated %v", res)
	}
	d.want("after the activation", first, true)
	// The first file is loaded by the requested reload, or by palyrad, which checks for changes
	// when it starts to watch the directory.
	list := must.Get(d.policies.ListPolicyVersions(t.Context(), &palyrav1.ListPolicyVersionsRequest{}))(t).GetVersions()
	if len(list) != 3 || list[0].GetVersion() != second || list[0].GetInForce() || !list[1].GetInForce() || !list[1].GetActivated() ||
		!slices.Contains([]string{"user:local", "service:palyrad"}, list[1].GetLoadedBy()) || list[1].GetFiles()[0] != "10-own.cedar" || list[2].GetLoadedBy() != "service:palyrad" {
		t.Errorf("versions %v", list)
	}
	old := must.Get(d.policies.GetPolicy(t.Context(), &palyrav1.GetPolicyRequest{Version: second[len("sha256:"):][:10]}))(t)
	if len(old.GetSources()) != 1 || old.GetSources()[0].GetText() != forbids("sleep") {
		t.Errorf("the second version is %v", old)
	}
	if _, err := d.policies.ActivatePolicy(t.Context(), &palyrav1.ActivatePolicyRequest{Version: "00000000"}); err == nil {
		t.Error("a version that does not exist was activated")
	}
	must.Get(AddOperator(t.Context(), cfg, NewOperator{
		Name: "bob", Roles: []access.Role{access.RoleOperator}, Dir: filepath.Join(t.TempDir(), "bob"), AcceptLoss: true,
	}))(t)
	d.want("with another member", first, true)
	d.end()

	again := openDesk(t, cfg)
	again.want("after a restart", first, true)
	must.Get(again.policies.ReloadPolicy(t.Context(), &palyrav1.ReloadPolicyRequest{}))(t)
	again.want("after the reload", second, false)
	again.end()
	third := openDesk(t, cfg)
	third.want("after the next restart", second, false)
	third.end()
}

const failingTest = "principal: local\ntests:\n  - name: echo is denied\n    call: {tool: echo, args: {text: x}}\n    expect: {verdict: deny}\n"

// A set whose tests fail does not load: a reload keeps the running set, and a start fails.
func TestPolicyTestsGuardTheLoad(t *testing.T) {
	t.Parallel()
	cfg := policyConfigAt(t)
	d := openDesk(t, cfg)
	good := must.Get(d.load("10-own.cedar", forbids("echo")))(t)
	if version, err := d.load("10-own.test.yaml", failingTest); err != nil || version != good {
		t.Fatalf("a test that passes changed %s into %s: %v", good, version, err)
	}
	_, err := d.load("10-own.cedar", forbids("sleep"))
	var known *reason.Error
	if !errors.As(api.ReasonOf(err), &known) || known.Code != reason.PolicyInvalid || !strings.Contains(known.Message, `test "echo is denied" failed: expected verdict deny, got allow`) {
		t.Errorf("loading what fails its test gives %v", err)
	}
	d.want("after a failing test", good, false)
	events := must.Get(palyrav1connect.NewJournalServiceClient(d.client(), d.url()).ListEvents(t.Context(), &palyrav1.ListEventsRequest{Filter: &palyrav1.EventFilter{Code: "PAL-P101"}}))(t)
	if n := len(events.GetEvents()); n < 1 || !strings.Contains(string(events.GetEvents()[n-1].GetPayloadJson()), `"file":"10-own.test.yaml"`) {
		t.Errorf("%d refusals were journaled: %v", n, events)
	}
	// An activation runs no tests, so that returning to an earlier version is always possible.
	must.Get(d.policies.ActivatePolicy(t.Context(), &palyrav1.ActivatePolicyRequest{Version: good}))(t)
	must.Get(d.policies.ActivatePolicy(t.Context(), &palyrav1.ActivatePolicyRequest{Version: must.Get(d.policies.ListPolicyVersions(t.Context(), &palyrav1.ListPolicyVersionsRequest{}))(t).GetVersions()[1].GetVersion()}))(t)
	d.end()
	must.Get(ResetPolicy(t.Context(), cfg))(t)
	if err := runBriefly(t, cfg); reason.Of(err) != reason.PolicyInvalid {
		t.Errorf("a start with a failing test gives %v", err)
	}
	// Tests may also be in their own directory; this one passes.
	must.Do(t, os.Mkdir(filepath.Join(cfg.Policy.Dir, "tests"), 0o700))
	must.Write(t, filepath.Join(cfg.Policy.Dir, "tests", "b.test.yaml"), strings.Replace(failingTest, "deny}", "allow}", 1))
	if err := runBriefly(t, cfg); err == nil || strings.Contains(err.Error(), "tests/b.test.yaml") {
		t.Errorf("%v", err)
	}
	must.Write(t, filepath.Join(cfg.Policy.Dir, "10-own.cedar"), forbids("echo"))
	if err := runBriefly(t, cfg); err == nil || !strings.Contains(err.Error(), "tests/b.test.yaml:3:1") {
		t.Errorf("a failing test below the directory gives %v", err)
	}
}

// A palyrad that cannot start because of an activated version can be reset to its directory.
func TestResetPolicy(t *testing.T) {
	t.Parallel()
	cfg := policyConfigAt(t)
	d := openDesk(t, cfg)
	version := must.Get(d.load("10-own.cedar", forbids("echo")))(t)
	must.Get(d.policies.ActivatePolicy(t.Context(), &palyrav1.ActivatePolicyRequest{Version: version}))(t)
	if _, err := ResetPolicy(t.Context(), cfg); !errors.Is(err, statedir.ErrInUse) {
		t.Errorf("while palyrad runs: %v", err)
	}
	d.end()
	editStore(t, cfg, `UPDATE policy_versions SET sources = CAST('[{"Name":"x.cedar","Text":"permit(principal"}]' AS BLOB) WHERE version = '`+version+`'`)
	err := runBriefly(t, cfg)
	var known *reason.Error
	if !errors.As(err, &known) || known.Code != reason.PolicyInvalid || !strings.Contains(known.NextStep(), "palyrad policy reset") {
		t.Fatalf("a start with a broken activated version gives %v", err)
	}
	if got, err := ResetPolicy(t.Context(), cfg); err != nil || got != version {
		t.Errorf("reset gives %s, %v", got, err)
	}
	if _, err := ResetPolicy(t.Context(), cfg); reason.Of(err) != reason.NotFound {
		t.Errorf("a second reset gives %v", err)
	}
	again := openDesk(t, cfg)
	again.want("after the reset", version, false)
	again.end()
}

// editStore edits the store of a stopped daemon.
func editStore(t *testing.T, cfg *config.Config, statement string) {
	t.Helper()
	conn := must.Get(zs.OpenConn(statedir.Store(cfg.StateDir), zs.OpenReadWrite))(t)
	err := sqlitex.ExecuteTransient(conn, statement, nil)
	must.Do(t, errors.Join(err, conn.Close()))
}

// explained returns the explanation of a past call.
func (d policyDesk) explained(id string) (*palyrav1.ExplainPolicyResponse, error) {
	return d.policies.ExplainPolicy(d.t.Context(), &palyrav1.ExplainPolicyRequest{Subject: &palyrav1.ExplainPolicyRequest_DecisionId{DecisionId: id}})
}

// decide makes a call and returns the ids of its proposal and its decision.
func (d policyDesk) decide(tool, input string) (proposal, decided string) {
	d.t.Helper()
	stream := must.Get(palyrav1connect.NewGatewayServiceClient(d.client(), d.url()).CallTool(context.WithoutCancel(d.t.Context()),
		&palyrav1.CallToolRequest{Tool: tool, InputJson: []byte(input)}))(d.t)
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		proposal += stream.Msg().GetProposed().GetProposalId()
		decided += stream.Msg().GetDecision().GetDecisionId()
	}
	must.Do(d.t, stream.Err())
	return proposal, decided
}

// A past call is explained by the policies that judged it, by either id, whichever policies are
// in force now. Without those policies there is no explanation.
func TestExplainThePast(t *testing.T) {
	t.Parallel()
	cfg := policyConfigAt(t)
	d := openDesk(t, cfg)
	version := must.Get(d.load("10-own.cedar", "// two lines\n// above\n"+forbids("echo")))(t)
	proposal, decided := d.decide("echo", `{"text":"AKIAABCDEFGHIJKLMNOP"}`)
	must.Get(d.load("10-own.cedar", forbids("sleep")))(t)
	for _, id := range []string{proposal, decided} {
		e := must.Get(d.explained(id))(t)
		if e.GetVerdict() != "deny" || e.GetDecision() != "denied" || e.GetPolicyVersion() != version || e.GetProposalId() != proposal || e.GetDecisionId() != decided {
			t.Errorf("%s is explained as %v", id, e)
		}
		if p := e.GetPolicies()[0]; p.GetPolicyId() != "own.no-echo" || p.GetLine() != 3 || !p.GetDetermining() {
			t.Errorf("%s was decided by %v", id, p)
		}
		if !strings.Contains(string(e.GetContextJson()), "[redacted]") || !strings.Contains(strings.Join(e.GetNotes(), ""), "secrets were removed") {
			t.Errorf("the secret is not marked: %s %v", e.GetContextJson(), e.GetNotes())
		}
	}
	// Control: the same call is allowed now.
	now := must.Get(d.policies.ExplainPolicy(t.Context(), &palyrav1.ExplainPolicyRequest{Subject: &palyrav1.ExplainPolicyRequest_Call{
		Call: &palyrav1.CallDescription{Tool: "echo", InputJson: []byte(`{"text":"x"}`)},
	}}))(t)
	if now.GetVerdict() != policy.Allow.String() {
		t.Errorf("the call is %s now", now.GetVerdict())
	}
	if _, err := d.explained("01JZ8Q4T2M0000000000000000"); reason.Of(api.ReasonOf(err)) != reason.NotFound {
		t.Errorf("an unknown id: %v", err)
	}
	d.end()
	for name, damage := range map[string]string{
		"kept without inputs": `UPDATE snapshots SET inputs = NULL`,
		"other inputs":        `UPDATE snapshots SET inputs = CAST(replace(CAST(inputs AS TEXT), 'own.no-echo', 'own.no-ecko') AS BLOB)`,
	} {
		editStore(t, cfg, `CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM snapshots`)
		editStore(t, cfg, damage)
		again := openDesk(t, cfg)
		if _, err := again.explained(decided); reason.Of(api.ReasonOf(err)) != reason.VerificationFailed {
			t.Errorf("%s: %v", name, err)
		}
		again.end()
		editStore(t, cfg, `UPDATE snapshots SET inputs = (SELECT inputs FROM kept WHERE kept.digest = snapshots.digest)`)
	}
}

// as adds a member and returns that member's desk.
func (d policyDesk) as(name string, owner access.Principal, role access.Role) policyDesk {
	d.t.Helper()
	dir := filepath.Join(d.t.TempDir(), name)
	must.Get(AddOperator(d.t.Context(), d.cfg, NewOperator{Name: name, Roles: []access.Role{role}, Owner: owner, Dir: dir}))(d.t)
	other := *d.running
	other.Credentials = dir
	return policyDesk{&other, palyrav1connect.NewPolicyServiceClient(other.client(), other.url())}
}

// TestPastDecisionsArePrivate: reading the decision of another caller's call requires access to the
// journal.
func TestPastDecisionsArePrivate(t *testing.T) {
	t.Parallel()
	d := openDesk(t, policyConfigAt(t))
	dora := d.as("dora", access.Principal{}, access.RoleDeveloper)
	for who, others := range map[*policyDesk]*policyDesk{&d: &dora, &dora: &d} {
		proposal, decided := who.decide("echo", `{"text":"x"}`)
		for _, id := range []string{proposal, decided} {
			// Control: the caller of the call gets the explanation.
			must.Get(who.explained(id))(t)
			_, err := others.explained(id)
			if others == &d && err != nil {
				t.Errorf("an owner reads the journal, and gets %v", err)
			}
			if others == &dora && reason.Of(api.ReasonOf(err)) != reason.NotFound {
				t.Errorf("a developer finds the call of somebody else: %v", err)
			}
		}
	}
	d.end()
}

// An agent may not read, test, explain, simulate or reload policies, even about its own past
// calls. Control: the owner may.
func TestAgentsReadNoPolicy(t *testing.T) {
	t.Parallel()
	d := openDesk(t, policyConfigAt(t))
	bot := d.as("bot", access.User("local"), access.RoleAgent)
	proposal, _ := bot.decide("echo", `{"text":"x"}`)
	call := &palyrav1.CallDescription{Tool: "echo", InputJson: []byte(`{"text":"x"}`)}
	for name, ask := range map[string]func(palyrav1connect.PolicyServiceClient) error{
		"explain its own past call": func(c palyrav1connect.PolicyServiceClient) error {
			_, err := c.ExplainPolicy(t.Context(), &palyrav1.ExplainPolicyRequest{Subject: &palyrav1.ExplainPolicyRequest_DecisionId{DecisionId: proposal}})
			return err
		},
		"explain a call": func(c palyrav1connect.PolicyServiceClient) error {
			_, err := c.ExplainPolicy(t.Context(), &palyrav1.ExplainPolicyRequest{Subject: &palyrav1.ExplainPolicyRequest_Call{Call: call}})
			return err
		},
		"simulate": func(c palyrav1connect.PolicyServiceClient) error {
			_, err := c.SimulatePolicy(t.Context(), &palyrav1.SimulatePolicyRequest{Call: call})
			return err
		},
		"test": func(c palyrav1connect.PolicyServiceClient) error {
			_, err := c.TestPolicy(t.Context(), &palyrav1.TestPolicyRequest{Tests: []*palyrav1.PolicySource{{Name: "a.test.yaml", Text: "tests:\n  - {name: x, call: {tool: echo, args: {text: x}, principal: \"agent:bot\"}, expect: {verdict: allow}}\n"}}})
			return err
		},
		"read": func(c palyrav1connect.PolicyServiceClient) error {
			_, err := c.GetPolicy(t.Context(), &palyrav1.GetPolicyRequest{})
			return err
		},
		"list versions": func(c palyrav1connect.PolicyServiceClient) error {
			_, err := c.ListPolicyVersions(t.Context(), &palyrav1.ListPolicyVersionsRequest{})
			return err
		},
		"reload": func(c palyrav1connect.PolicyServiceClient) error {
			_, err := c.ReloadPolicy(t.Context(), &palyrav1.ReloadPolicyRequest{})
			return err
		},
	} {
		if err := ask(bot.policies); reason.Of(api.ReasonOf(err)) != reason.PermissionDenied {
			t.Errorf("an agent may %s: %v", name, err)
		}
		if err := ask(d.policies); err != nil {
			t.Errorf("the control: an owner may not %s: %v", name, err)
		}
	}
	d.end()
}

// TestExplainWithoutTheSecretThatDecided: a call has no explanation if its verdict depends on a
// secret that the journal does not contain.
func TestExplainWithoutTheSecretThatDecided(t *testing.T) {
	t.Parallel()
	cfg := policyConfigAt(t)
	d := openDesk(t, cfg)
	must.Get(d.load("10-own.cedar", "@id(\"own.no-keys\")\nforbid(principal, action == Action::\"tool.execute/echo\", resource)\nwhen { context.args has text && context.args.text like \"AKIA*\" };\n"))(t)
	_, decided := d.decide("echo", `{"text":"AKIAABCDEFGHIJKLMNOP"}`)
	_, err := d.explained(decided)
	if reason.Of(api.ReasonOf(err)) != reason.VerificationFailed || !strings.Contains(err.Error(), "secrets were removed") {
		t.Errorf("%v", err)
	}
	d.end()
}
