package policy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy/profile"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// asked returns the requests that are not reads of the status or of the policy.
func asked(w *clitest.World) []proto.Message {
	return slices.DeleteFunc(clitest.Requests[proto.Message](w), func(m proto.Message) bool {
		switch m.(type) {
		case *palyrav1.GetStatusRequest, *palyrav1.GetPolicyRequest:
			return true
		}
		return false
	})
}

// lastAsked returns the last request of a policy method.
func lastAsked(w *clitest.World) proto.Message {
	w.T.Helper()
	asked := asked(w)
	if len(asked) == 0 {
		w.T.Fatal("the gateway was not asked")
	}
	return asked[len(asked)-1]
}

// TestExplanationFits: an explanation fits 80 columns for any text, and has the same words
// without colors.
func TestExplanationFits(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for _, args := range [][]string{{"policy", "explain", "process.run"}, {"policy", "explain", "process.run", "-o", "wide"}} {
		r := w.Run(args...)
		w.Want(r, 0)
		for line := range strings.Lines(r.Out) {
			if n := lipgloss.Width(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
		lines := strings.Split(r.Out, "\n")
		if !strings.HasPrefix(lines[0], "verdict") || !strings.Contains(lines[0], "deny") {
			t.Errorf("the first line is %q", lines[0])
		}
		for _, want := range []string{"forbid team.no-curl", "20-team.cedar:3", "<- decided", "\\u{1b}[31m", "change        call another program than curl (then: ask)"} {
			if !strings.Contains(r.Out, want) {
				t.Errorf("%v lacks %q:\n%s", args, want, r.Out)
			}
		}
	}
	coloured := w.With(printer.Streams{OutTerminal: true, Width: 80}, "policy", "explain", "process.run")
	plain := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(coloured.Out, "")
	if bare := w.Run("policy", "explain", "process.run"); plain != bare.Out || coloured.Out == bare.Out {
		t.Errorf("in colour it says something else (-plain +coloured):\n%s", cmp.Diff(bare.Out, plain))
	}
}

// TestDescribedCall: `policy explain` reads a call's input like `palyra call`, and adds facts
// and votes.
func TestDescribedCall(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Tools = []*palyrav1.Tool{{Name: "process.run", InputSchemaJson: []byte(`{"properties":{"argv":{"type":"array"},"timeout_ms":{"type":"integer"}}}`)}}
	w.Want(w.Run("policy", "explain", "process.run", "argv=git", "argv=push", "timeout_ms=5", "--as", "agent:coder", "--session", "s", "--channel", "c", "--at", "2026-01-05T12:00:00Z",
		"--fact", "exec.basename=git", "--fact", "context.session.tainted=true", "--fact", "risk=7", "--fact", "egress.hosts=a:1", "--fact", "egress.hosts=b:2",
		"--vote", "bob", "--vote", "user:carol:operator,security@console"), 0)
	want := &palyrav1.ExplainPolicyRequest{Subject: &palyrav1.ExplainPolicyRequest_Call{Call: &palyrav1.CallDescription{
		Principal: "agent:coder", Tool: "process.run", InputJson: []byte(`{"argv":["git","push"],"timeout_ms":5}`), Session: "s", Channel: "c",
		FactsJson: []byte(`{"egress":{"hosts":["a:1","b:2"]},"exec":{"basename":"git"},"risk":7,"session":{"tainted":true}}`),
		Votes:     []*palyrav1.DescribedVote{{User: "bob", Paired: true}, {User: "carol", Roles: []string{"operator", "security"}, Surface: "console", Paired: true}},
	}}}
	got, ok := lastAsked(w).(*palyrav1.ExplainPolicyRequest)
	if !ok || got.GetCall().GetAt().AsTime().Hour() != 12 {
		t.Fatalf("asked %v", lastAsked(w))
	}
	got.GetCall().At = nil
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("the description (-want +got):\n%s", diff)
	}
	w.Want(w.Run("policy", "simulate", "process.run", "--input", `{"argv":["ls"]}`, "--policies", "testdata/one.cedar", "--replace"), 3)
	sim, ok := lastAsked(w).(*palyrav1.SimulatePolicyRequest)
	if !ok || sim.GetSources()[0].GetName() != "one.cedar" || !sim.GetReplace() || string(sim.GetCall().GetInputJson()) != `{"argv":["ls"]}` {
		t.Errorf("asked %v", lastAsked(w))
	}
	w.Want(w.Run("policy", "explain", "01decsn0000000000000000000"), 0)
	past, ok := lastAsked(w).(*palyrav1.ExplainPolicyRequest)
	if !ok || past.GetDecisionId() != "01DECSN0000000000000000000" {
		t.Errorf("asked %v", lastAsked(w))
	}
}

func TestDescribedCallUsage(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"explain"}, "an argument is missing"},
		{[]string{"explain", "t", "x"}, "is not key=value"},
		{[]string{"explain", "t", "x=1", "--input", "{}"}, "exclude each other"},
		{[]string{"explain", "t", "--fact", "exec.basenam=git"}, "exec.basename"},
		{[]string{"explain", "t", "--fact", "risk"}, "want PATH=VALUE"},
		{[]string{"explain", "t", "--fact", "risk=high"}, "not of type integer"},
		{[]string{"explain", "t", "--fact", "risk=1", "--fact", "risk=2"}, "specified twice"},
		{[]string{"explain", "t", "--vote", ":x"}, "want USER"},
		{[]string{"explain", "t", "--vote", "bob:"}, "want USER"},
		{[]string{"explain", "t", "--at", "noon"}, "want a time"},
		{[]string{"explain", "01DECSN0000000000000000000", "--as", "user:a"}, "do not apply to a past call"},
		{[]string{"simulate", "t", "--policies", "nowhere.cedar"}, "reading policies"},
		{[]string{"simulate", "t", "--policies", "testdata/one.cedar", "--policies", "testdata/one.cedar"}, "the same name"},
		{[]string{"activate", "newest"}, "is not a policy version"},
		{[]string{"diff", "newest"}, "is not a policy version"},
		{[]string{"show", "a.cedar", "b.cedar"}, "is not a policy version"},
		{[]string{"show", "sha256:11111111", "--schema"}, "of the set in force"},
		{[]string{"versions", "--limit", "-1"}, "want 0 or more"},
		{[]string{"test", "testdata/one.test.yaml", "--cover-min", "101"}, "want 0 to 100"},
		{[]string{"test", "testdata/one.cedar"}, "there are no *.test.yaml files"},
		{[]string{"init"}, "--profile is missing"},
		{[]string{"init", "--profile", "lapptop"}, "laptop"},
	} {
		r := w.Run(append([]string{"policy"}, c.args...)...)
		if w.Want(r, 2); !strings.Contains(r.Err, c.says) {
			t.Errorf("%v: %s", c.args, r.Err)
		}
	}
	if asked := clitest.Requests[proto.Message](w); len(asked) != 0 {
		t.Errorf("the gateway was asked %v", asked)
	}
}

// TestPolicyTestExit: failures and insufficient coverage exit with 1.
func TestPolicyTestExit(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	r := w.Run("policy", "test", "testdata/one.test.yaml")
	w.Want(r, 1)
	for _, want := range []string{"FAIL a.test.yaml:9  curl is denied", "expected verdict deny, got ask", "not covered: team.no-curl", "never decided", `never true: context.exec.basename == "curl"`} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("the output lacks %q:\n%s", want, r.Out)
		}
	}
	if strings.Contains(r.Out, "reads") || strings.Contains(r.Out, "team.whole") || !strings.Contains(r.Err, "1 passed, 1 failed; 60 %") {
		t.Errorf("the output is\n%s%s", r.Out, r.Err)
	}
}

// TestPolicyTestOffline: every profile can be written, passes its tests without a gateway, and
// is covered by them. A broken policy fails.
func TestPolicyTestOffline(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for _, p := range profile.All() {
		dir := filepath.Join(t.TempDir(), "policies")
		r := w.Run("policy", "init", "--profile", p.Name, dir)
		if w.Want(r, 0); !strings.Contains(r.Out, "dir = \""+dir+"\"") || !strings.Contains(r.Out, "not in force") {
			t.Errorf("init says\n%s", r.Out)
		}
		w.Want(w.Run("policy", "check", dir, "--offline"), 0)
		r = w.Run("policy", "test", dir, "--offline", "--cover-min", "100")
		if w.Want(r, 0); !strings.Contains(r.Err, " 0 failed; 100 %") {
			t.Errorf("%s: %s%s", p.Name, r.Out, r.Err)
		}
	}
	if len(asked(w)) != 0 {
		t.Error("the gateway was asked")
	}
	dir := t.TempDir()
	w.Want(w.Run("policy", "init", "--profile", "ci", dir), 0)
	must.Write(t, filepath.Join(dir, "tests", "more.test.yaml"), "principal: agent:pipeline\ntests:\n  - {name: a, call: {tool: echo, args: {text: x}}, expect: {verdict: allow}}\n")
	r := w.Run("policy", "test", dir, "--offline")
	if w.Want(r, 1); !strings.Contains(r.Out, "more.test.yaml:3") {
		t.Errorf("%s%s", r.Out, r.Err)
	}
	must.Write(t, filepath.Join(dir, "20-broken.cedar"), "permit(")
	r = w.Run("policy", "test", dir, "--offline")
	if w.Want(r, 1); !strings.Contains(r.Out, "20-broken.cedar:1:") {
		t.Errorf("%s%s", r.Out, r.Err)
	}
	half := filepath.Join(t.TempDir(), "half")
	w.Want(w.Run("policy", "init", "--profile", "laptop", half), 0)
	must.Write(t, filepath.Join(half, "20-more.cedar"), "@id(\"never.tested\") forbid(principal, action == Action::\"tool.execute/echo\", resource) when { context.present };\n")
	r = w.Run("policy", "test", half, "--offline", "--cover-min", "100")
	if w.Want(r, 1); !strings.Contains(r.Err, "less than --cover-min 100") || !strings.Contains(r.Out, "never.tested") {
		t.Errorf("%s%s", r.Out, r.Err)
	}
}

// TestPolicyInitOverwritesNothing: existing files are overwritten only with --force and --yes.
func TestPolicyInitOverwritesNothing(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	dir := t.TempDir()
	mine := filepath.Join(dir, "10-laptop.test.yaml")
	must.Write(t, mine, "mine")
	r := w.Run("policy", "init", "--profile", "laptop", dir)
	if w.Want(r, 7); !strings.Contains(r.Err, "ALREADY_EXISTS") || !strings.Contains(r.Err, "nothing was written") {
		t.Errorf("%s", r.Err)
	}
	if _, err := os.Stat(filepath.Join(dir, "10-laptop.cedar")); err == nil {
		t.Error("half of the profile was written")
	}
	if r := w.Run("policy", "init", "--profile", "laptop", dir, "--force"); r.Code != 2 || !strings.Contains(r.Err, "--yes") {
		t.Errorf("--force alone: %d, %s", r.Code, r.Err)
	}
	if text, err := os.ReadFile(mine); err != nil || string(text) != "mine" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	w.Want(w.Run("policy", "init", "--profile", "laptop", dir, "--force", "--yes"), 0)
	if text, err := os.ReadFile(mine); err != nil || string(text) == "mine" {
		t.Errorf("--force --yes did not overwrite: %v", err)
	}
}

// TestActivateReportsADifferentSet: the command reports that the files are the requested ones,
// but the rest of the set has changed.
func TestActivateReportsADifferentSet(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	if r := w.Run("policy", "activate", "sha256:bbbbbbbb"); r.Code != 0 || strings.Contains(r.Err, "changed since") {
		t.Errorf("%d: %s", r.Code, r.Err)
	}
	if r := w.Run("policy", "activate", "cccccccc"); r.Code != 0 || !strings.Contains(r.Err, "changed since cccccccc") {
		t.Errorf("%d: %s", r.Code, r.Err)
	}
}

// TestPolicyInitWhereItIsRead: without a directory argument, the files are written to the
// directory that palyrad reads, next to palyra.toml. The command prints whether they are in
// force.
func TestPolicyInitWhereItIsRead(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	dir := filepath.Join(w.Home, "config", "palyra", "policies")
	w.Gateway.PolicyDir = dir
	r := w.Run("policy", "init", "--profile", "laptop", "-o", "json")
	if w.Want(r, 0); !strings.Contains(r.Out, `"in_force": true`) || !strings.Contains(r.Out, `"config": ""`) {
		t.Errorf("with a gateway: %s%s", r.Out, r.Err)
	}
	if _, err := os.Stat(filepath.Join(dir, "10-laptop.cedar")); err != nil {
		t.Error(err)
	}
	for _, command := range []string{"check", "test"} {
		if r := w.Run("policy", command); !strings.Contains(r.Err, "\nin force at the gateway: 1 policy active") || !strings.Contains(r.Err, dir) {
			t.Errorf("%s says %q", command, r.Err)
		}
	}
	r = w.Run("policy", "reload")
	if w.Want(r, 0); !strings.Contains(strings.Join(strings.Fields(r.Out), ""), "from"+dir+"(1file)") {
		t.Errorf("reload says\n%s", r.Out)
	}
	// An activation is not changed, and is reported.
	w.Gateway.Activated, w.Gateway.Own = true, w.Gateway.Own[:0]
	r = w.Run("policy", "init", "--profile", "laptop", "--force", "--yes", "-o", "json")
	if w.Want(r, 0); !strings.Contains(r.Out, `"in_force": false`) || !strings.Contains(r.Out, "an activated version is in force") {
		t.Errorf("beside an activation: %s", r.Out)
	}
	if r := w.Run("policy", "check"); !strings.Contains(r.Err, "not in force at the gateway") || !strings.Contains(r.Err, "activated") {
		t.Errorf("check says %q", r.Err)
	}
	// Without a gateway no policy is in force, and the directory is the same.
	must.Do(t, os.RemoveAll(dir))
	w.Server.Close()
	r = w.Run("policy", "init", "--profile", "laptop")
	if w.Want(r, 0); !strings.Contains(r.Out, "not in force: no palyrad was reached") || !strings.Contains(strings.Join(strings.Fields(r.Out), ""), dir) || strings.Contains(r.Out, "put into palyra.toml") {
		t.Errorf("without a gateway:\n%s", r.Out)
	}
	if r := w.Run("policy", "check"); !strings.Contains(r.Err, "no gateway was asked") || !strings.Contains(r.Err, dir) {
		t.Errorf("check says %q", r.Err)
	}
}

// TestPolicyInitOutsideOfWorkspaces: policies cannot be written to a workspace, where an agent
// could change them.
func TestPolicyInitOutsideOfWorkspaces(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	project := filepath.Join(w.Home, "project")
	must.Do(t, os.Mkdir(project, 0o700))
	w.Config("[[workspaces]]\nname = \"here\"\npath = \"" + filepath.ToSlash(project) + "\"\n")
	r := w.Run("policy", "init", "--profile", "laptop", filepath.Join(project, "policies"))
	if w.Want(r, 2); !strings.Contains(r.Err, "overlaps workspace here") {
		t.Errorf("%s", r.Err)
	}
	if _, err := os.Stat(filepath.Join(project, "policies")); err == nil {
		t.Error("it was written")
	}
	w.Want(w.Run("policy", "init", "--profile", "laptop", filepath.Join(w.Home, "policies")), 0)
}

// TestPolicyTestOfInvalidFiles: an invalid policy file fails the tests and is named, with and
// without test files next to it.
func TestPolicyTestOfInvalidFiles(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	dir := filepath.Join(w.Home, "broken")
	must.Write(t, filepath.Join(dir, "20-broken.cedar"), "permit(principal, action resource);\n")
	for _, args := range [][]string{{dir}, {filepath.Join(dir, "20-broken.cedar")}, {dir, "--offline"}, {dir, "testdata/one.test.yaml", "--offline"}} {
		r := w.Run(append([]string{"policy", "test"}, args...)...)
		if w.Want(r, 1); !strings.Contains(r.Err, "20-broken.cedar") || strings.Contains(r.Err, "100 %") {
			t.Errorf("%v: %s%s", args, r.Out, r.Err)
		}
	}
	must.Write(t, filepath.Join(dir, "b.test.yaml"), "tests:\n  - [\n")
	if r := w.Run("policy", "test", filepath.Join(dir, "b.test.yaml"), "--offline"); r.Code != 1 || !strings.Contains(r.Err, "b.test.yaml") {
		t.Errorf("%d: %s", r.Code, r.Err)
	}
}

func TestPolicyCheckOfTheConfiguration(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Want(w.Run("policy", "check"), 2)
	text := must.Get(os.ReadFile("testdata/one.cedar"))(t)
	w.Write("one.cedar", string(text))
	w.Config("[policy]\ndir = \"" + filepath.ToSlash(w.Home) + "\"\n")
	if r := w.Run("policy", "check"); !strings.Contains(r.Err, "1 file") {
		t.Error(r.Err)
	}
}

// TestCheckReadsTests: faults in the test files next to policies are errors of the check.
// Control: a valid test file.
func TestCheckReadsTests(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	file := w.Write("p/10.cedar", `@id("a") @reason("a") forbid(principal == User::"bob", action, resource);`)
	fine := w.Write("p/tests/fine.test.yaml", "tests:\n  - name: reads\n    call: {principal: \"user:ada\", tool: fs.read, args: {path: a}}\n    expect: {verdict: allow}\n")
	dir := filepath.Dir(file)
	if r := w.Run("policy", "check", dir, "--offline"); r.Code != 0 || !strings.Contains(r.Err, "2 files, 0 errors") {
		t.Errorf("the control: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	for name, text := range map[string]string{
		"an unknown key": "tests:\n  - name: x\n    calls: {}\n", "no YAML": "tests: [\n", "no such effect": "tests:\n  - name: x\n    call: {principal: \"user:ada\", tool: fs.read}\n    expect: {verdict: maybe}\n",
	} {
		bad := w.Write("p/bad.test.yaml", text)
		for _, path := range []string{dir, bad} {
			if r := w.Run("policy", "check", path, "--offline"); r.Code != 1 || !strings.Contains(r.Out+r.Err, "bad.test.yaml:") {
				t.Errorf("%s: exit %d\n%s%s", name, r.Code, r.Out, r.Err)
			}
		}
	}
	if r := w.Run("policy", "check", fine, "--offline"); r.Code != 0 {
		t.Errorf("a test file alone: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
}

// TestInitPending: policies that require a second person are written. The command prints the
// approval and exits with the code of a pending change.
func TestInitPending(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"pending":          {clitest.GatewayError(connect.CodeFailedPrecondition, reason.ChangePending, "the change waits for bob", map[string]string{"approval_id": clitest.ApprovalID}), reason.ExitPending},
		"control: invalid": {clitest.GatewayError(connect.CodeFailedPrecondition, reason.PolicyInvalid, "it does not load", nil), 0},
	} {
		w := clitest.NewWorld(t)
		w.Gateway.ReloadFails = c.err
		dir := t.TempDir()
		r := w.Run("policy", "init", "--profile", "laptop", dir)
		w.Want(r, c.code)
		if printed := strings.Contains(strings.Join(strings.Fields(r.Out), " "), "palyra approve "+clitest.ApprovalID); printed != (c.code == reason.ExitPending) {
			t.Errorf("%s: %s", name, r.Out)
		}
		if files := must.Get(filepath.Glob(filepath.Join(dir, "*.cedar")))(t); len(files) == 0 {
			t.Errorf("%s: no file was written", name)
		}
	}
}
