package call_test

import (
	"context"
	"strings"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

const runForbidden = `
@id("no-run") forbid(principal, action == Action::"tool.execute/process.run", resource);
`

// TestConflictDetails: the detail of a content conflict is returned only to callers that may
// read the file without an approval. This applies to a call, a dry run and a running call.
// Other callers receive a conflict without detail, or the denial if policy denies the call.
// Control: a file that every caller may read.
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

// TestConflictShownToRequester: a requester who submits another caller's call receives the
// detail of a conflict only if both may read the file. Control: a requester who may.
func TestConflictShownToRequester(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withPolicies(`@id("no-bob") forbid(principal == User::"bob", action == Action::"tool.execute/fs.read", resource);`))
	facts := tool.Facts{Workspace: "default", Path: "plain", SandboxTier: "builtin", SandboxLevel: "none"}
	w.run.Found.Contents = []tool.FileAccess{{Tool: "fs.read", Input: []byte(`{"path":"plain"}`), Facts: facts}}
	w.run.PlanErr = &tool.RestrictedError{Plan: w.run.Found, Detail: reason.Errorf(reason.PatchConflict, "line 3 is canary")}
	for asker, details := range map[*access.Caller]bool{&bob: false, &alice: true} {
		s := runCall()
		s.Asker = *asker
		if _, err := w.MayElsewhere(t.Context(), s, approval.Answer{}, noted); reason.Of(err) != reason.PatchConflict || strings.Contains(err.Error(), "canary") != details {
			t.Errorf("%s is told: %v", asker.Principal, err)
		}
		if _, err := w.AskElsewhere(t.Context(), s, "", nil); reason.Of(err) != reason.PatchConflict || strings.Contains(err.Error(), "canary") != details {
			t.Errorf("%s, who wants people to be asked, is told: %v", asker.Principal, err)
		}
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

// TestRestrictedDigests: a caller does not receive the digest of a call if the digest depends
// on a file that the caller may not read. The file may be read by planning, named by the call,
// or be the program. Control: policy permits the caller to read the file.
func TestRestrictedDigests(t *testing.T) {
	t.Parallel()
	facts := tool.Facts{Workspace: "default", Path: "rules", SandboxTier: "builtin", SandboxLevel: "none"}
	for name, c := range map[string]struct {
		find  func(*tool.Plan)
		never bool
	}{
		"a file that planning read": {func(p *tool.Plan) {
			p.Contents = []tool.FileAccess{{Tool: "fs.read", Input: []byte(`{"path":"rules"}`), Facts: facts}}
		}, false},
		"an operand": {func(p *tool.Plan) {
			p.Binding.Operands = []tool.Operand{{Path: "rules", SHA256: gatewaytest.Digest("1")}}
		}, false},
		"a program of a workspace": {func(p *tool.Plan) { p.Facts.Exec = &tool.ExecFacts{Basename: "x", Origin: tool.OriginWorkspace} }, true},
		"no file":                  {func(*tool.Plan) {}, false},
	} {
		for _, forbidden := range []bool{false, true} {
			w := newWorld(t, func(w *world) {
				unattended(w)
				if forbidden {
					w.options.Policies += `@id("no-reading") forbid(principal, action == Action::"tool.execute/fs.read", resource);`
				}
			})
			w.run.Found.DeniedHosts = []string{"example.com:443, from an argument"}
			w.run.Found.Facts.Workspace, w.run.Found.Binding.Operands = "default", nil
			c.find(&w.run.Found)
			want, told := c.never || forbidden && name != "no file", 0
			_, err := w.Call(t.Context(), runCall(), func(e call.Event) {
				if e.Decision != nil || e.Attestation != nil {
					if told++; e.Restricted() != want {
						t.Errorf("%s, reading forbidden %t: restricted %t", name, forbidden, !want)
					}
				}
			})
			if err != nil || told != 2 {
				t.Errorf("%s: %v, %d events", name, err, told)
			}
			if e := must.Get(w.Evaluate(t.Context(), runCall()))(t); (e.CallDigest == "") != want || (e.Plan.DeniedHosts == nil) != want {
				t.Errorf("%s, reading forbidden %t: a dry run returns the digest %q", name, forbidden, e.CallDigest)
			}
		}
	}
}
