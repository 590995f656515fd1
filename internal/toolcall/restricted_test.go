package toolcall_test

import (
	"context"
	"strings"
	"testing"

	"palyra/internal/gatewaytest"
	"palyra/internal/must"
	"palyra/internal/policy/policytest"
	"palyra/internal/reason"
	"palyra/internal/tool"
)

const runForbidden = `
@id("no-run") forbid(principal, action == Action::"tool.execute/process.run", resource);
`

// TestConflictDetails: the detail of a content conflict is returned only to callers that may
// read the file without an approval, for a call, a dry run and a running call. Other callers
// receive a conflict without detail, or the denial if policy denies the call. The control is
// a file that every caller may read.
func TestConflictDetails(t *testing.T) {
	t.Parallel()
	const detail = "line 3 is canary"
	for name, c := range map[string]struct {
		path, policies string
		code           reason.Code
		details        bool
	}{
		"readable file":                          {"plain", secretsAsk, reason.PatchConflict, true},
		"reading needs an approval":              {"secret", secretsAsk, reason.PatchConflict, false},
		"call denied, readable file":             {"plain", secretsAsk + runForbidden, reason.PolicyDenied, false},
		"call denied, reading needs an approval": {"secret", secretsAsk + runForbidden, reason.PolicyDenied, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(w *world) { w.options = policytest.Options{TwoUsers: true, Policies: c.policies} })
			facts := tool.Facts{Workspace: "default", Path: c.path, SandboxTier: "builtin", SandboxLevel: "none"}
			w.run.Found.Contents = []tool.FileAccess{{Tool: "fs.read", Input: []byte(`{"path":"` + c.path + `"}`), Facts: facts}}
			restricted := &tool.RestrictedError{Plan: w.run.Found, Detail: reason.Errorf(reason.PatchConflict, detail)}
			if e := must.Get(w.Pipeline.Evaluate(t.Context(), runCall()))(t); (e.CallDigest != "") != (c.path == "plain") {
				t.Errorf("a dry run returns the digest %q", e.CallDigest)
			}
			w.run.PlanErr = restricted
			check := func(what string, code reason.Code, text string) {
				t.Helper()
				if code != c.code || strings.Contains(text, detail) != c.details {
					t.Errorf("%s: %s %q", what, code, text)
				}
			}

			_, o, err := w.call(runCall())
			if c.code == reason.PolicyDenied {
				check("the call", o.Decision.Reason, o.Decision.Message+o.Decision.Remedy)
			} else {
				check("the call", reason.Of(err), err.Error())
			}

			s := runCall()
			s.Run = ""
			e, err := w.Pipeline.Evaluate(t.Context(), s)
			if err == nil {
				check("a dry run", e.Verdict.Reason(), e.Verdict.Remedy())
			} else {
				check("a dry run", reason.Of(err), err.Error())
			}

			w.read.Work = func(ctx context.Context, call tool.Call) tool.Report {
				r := gatewaytest.Succeeded(`{}`)
				return r.Fail(ctx, tool.Disclose(restricted, call.MayDisclose))
			}
			if _, o, err = w.call(readCall()); err != nil || strings.Contains(o.Report.Message, detail) != (c.path == "plain") {
				t.Errorf("a call that runs: %+v, %v", o.Report, err)
			}
		})
	}
}

// TestConflictAtDispatch: a conflict that appears between decision and dispatch follows the
// same rule.
func TestConflictAtDispatch(t *testing.T) {
	t.Parallel()
	for path, details := range map[string]bool{"plain": true, "secret": false} {
		w := newWorld(t, func(w *world) { w.options = policytest.Options{TwoUsers: true, Policies: secretsAsk} })
		restricted := &tool.RestrictedError{
			Detail: reason.Errorf(reason.PatchConflict, "line 3 is canary"),
			Plan: tool.Plan{Contents: []tool.FileAccess{{Tool: "fs.read", Input: []byte(`{"path":"` + path + `"}`), Facts: tool.Facts{
				Workspace: "default", Path: path, SandboxTier: "builtin", SandboxLevel: "none",
			}}}},
		}
		w.read.OnPlan = func(n int) {
			if n == 2 {
				w.read.Change(func(p *gatewaytest.Probe) { p.PlanErr = restricted })
			}
		}
		_, o, err := w.call(readCall())
		if err != nil || o.Report.Outcome != tool.Refused || o.Report.Reason != string(reason.PatchConflict) || strings.Contains(o.Report.Message, "canary") != details {
			t.Errorf("%s: %+v, %v", path, o.Report, err)
		}
	}
}
