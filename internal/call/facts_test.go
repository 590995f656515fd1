package call_test

import (
	"context"
	"encoding/json"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// secretsAsk requires approval for secret files, when reading and when searching.
const secretsAsk = `
@id("ask-secret")
forbid(principal, action == Action::"tool.execute/fs.read", resource)
when { context has path && context.path like "secret*" } unless { context.approval.granted };
`

// TestReadThatWaited: a file that was edited while an approval was pending is evaluated again
// and read. It is not read if facts that policy reads have changed.
func TestReadThatWaited(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*gatewaytest.Probe)
		reads  string
		runs   bool
	}{
		"nothing":                {func(*gatewaytest.Probe) {}, "", true},
		"edited":                 {func(p *gatewaytest.Probe) { p.Found.Files = []tool.FileIdentity{{Inode: 1, ChangedAt: 2}} }, "", true},
		"replaced by its editor": {func(p *gatewaytest.Probe) { p.Found.Files = []tool.FileIdentity{{Inode: 2, ChangedAt: 2}} }, "", true},
		"path": {func(p *gatewaytest.Probe) {
			p.Found.Facts.Path = "secret-2"
			p.Found.Files = []tool.FileIdentity{{Inode: 2}}
		}, "", false},
		"resolved to another": {func(p *gatewaytest.Probe) {
			p.Found.Binding.Cwd = "default:other"
			p.Found.Files = []tool.FileIdentity{{Inode: 2}}
		}, "", false},
		"a fact that no policy reads": {func(p *gatewaytest.Probe) { p.Found.Facts.Method = "POST" }, "", true},
		"a fact that a policy reads":  {func(p *gatewaytest.Probe) { p.Found.Facts.Method = "POST" }, `forbid(principal, action in Action::"tool.execute", resource) when { context has method && context.method == "PUT" };`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(w *world) {
				w.options = policytest.Options{TwoUsers: true, Policies: secretsAsk + c.reads}
				w.read.PathOfInput, w.read.Found.Facts.Path, w.read.Found.Files = false, "secret", []tool.FileIdentity{{Inode: 1, ChangedAt: 1}}
			})
			r := w.begin(readCall())
			asked := r.asked()
			w.read.Change(c.change)
			w.vote(bob, asked, approval.Ballot{Allow: true, Scope: approval.Once})
			o, err := r.wait()
			if err != nil || !o.Decision.Allowed {
				t.Fatalf("%+v, %v", o, err)
			}
			if ran := o.Report.Outcome == tool.Succeeded; ran != c.runs || !ran && o.Report.Reason != string(reason.BindingMismatch) {
				t.Errorf("%+v", o.Report)
			}
			w.checkEvidence(o)
		})
	}
}

// search is a tool that finds files.
var search = tool.Descriptor{
	Name: "fs.search", Title: "Search", Executor: tool.Builtin, ReadOnly: true, Capabilities: []tool.Capability{tool.FilesystemRead},
	InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`),
}

// TestFilesThatAreFound: each file is evaluated separately, as found by the tool and as read by
// fs.read. An ask counts as a denial, unless the same ask of the same policy was approved for
// the call.
func TestFilesThatAreFound(t *testing.T) {
	t.Parallel()
	const searchAsks = `
@id("ask-search")
forbid(principal, action == Action::"tool.execute/fs.search", resource) unless { context.approval.granted };
`
	const searchForbidden = `
@id("private")
forbid(principal, action == Action::"tool.execute/fs.search", resource) when { context has path && context.path like "private*" };
`
	for name, c := range map[string]struct {
		policies string
		asks     bool
		want     map[string]bool
	}{
		"no policy":              {"", false, map[string]bool{"a": true, "secret": true, "private": true}},
		"fs.read asks":           {secretsAsk, false, map[string]bool{"a": true, "secret": false, "private": true}},
		"the tool may not":       {searchForbidden, false, map[string]bool{"a": true, "secret": true, "private": false}},
		"approved":               {searchAsks, true, map[string]bool{"a": true, "secret": true}},
		"but not to the secrets": {searchAsks + secretsAsk, true, map[string]bool{"a": true, "secret": false}},
	} {
		t.Run(name, func(t *testing.T) {
			p := gatewaytest.NewProbe(search)
			w := newWorld(t, func(w *world) {
				w.options = policytest.Options{TwoUsers: true, Policies: c.policies, Tools: []tool.Descriptor{search}}
				w.more = append(w.more, p)
			})
			got := map[string]bool{}
			p.Work = func(_ context.Context, call tool.Call) tool.Report {
				for path := range c.want {
					facts := tool.Facts{Workspace: "default", Path: path, SandboxTier: "builtin", SandboxLevel: "none"}
					own := call.MayRead(tool.FileAccess{Tool: search.Name, Input: call.Proposal.Input, Facts: facts})
					got[path] = own && call.MayRead(tool.FileAccess{Tool: "fs.read", Input: []byte(`{"path":"` + path + `"}`), Facts: facts})
				}
				return gatewaytest.Succeeded(`{}`)
			}
			s := readCall()
			s.Tool, s.Input = search.Name, []byte(`{}`)
			r := w.begin(s)
			if c.asks {
				w.vote(bob, r.asked(), approval.Ballot{Allow: true, Scope: approval.Once})
			}
			if o, err := r.wait(); err != nil || o.Report.Outcome != tool.Succeeded {
				t.Fatalf("%+v, %v", o, err)
			}
			for path, want := range c.want {
				if got[path] != want {
					t.Errorf("%s may be read: %t", path, got[path])
				}
			}
		})
	}
}

// TestDifferentSandboxThanPolicyEvaluated: a call that was decided for one sandbox runs in
// another only if policy allows that as well.
func TestDifferentSandboxThanPolicyEvaluated(t *testing.T) {
	t.Parallel()
	const fullOnly = `forbid(principal, action in Action::"tool.execute", resource) when { context.sandbox.rung == "landlock" };`
	for policies, runs := range map[string]bool{"": true, fullOnly: false} {
		w := newWorld(t, func(w *world) { w.options.Policies = policies; w.read.Found.Facts.SandboxRung = "full" })
		w.read.OnPlan = func(n int) {
			if n == 2 {
				w.read.Change(func(p *gatewaytest.Probe) { p.Found.Facts.SandboxRung = "landlock" })
			}
		}
		_, o, err := w.call(readCall())
		if err != nil || !o.Decision.Allowed {
			t.Fatalf("%+v, %v", o, err)
		}
		if (o.Report.Outcome == tool.Succeeded) != runs {
			t.Errorf("%q: %+v", policies, o.Report)
		}
	}
}
