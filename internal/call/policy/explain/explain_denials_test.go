package explain_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/explain"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

// write is a tool that changes files.
var write = tool.Descriptor{
	Name: "fs.write", Executor: tool.Builtin, Destructive: true, Capabilities: []tool.Capability{tool.FilesystemWrite},
	InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],` +
		`"properties":{"path":{"type":"string"},"text":{"type":"string"}}}`),
}

// denial is a call that is not allowed, and the first change that its explanation proposes.
type denial struct {
	name string
	// file is a file in testdata/explain, or "" for the default policies alone.
	file    string
	options policytest.Options
	request policy.Request
	votes   []policy.Vote
	grants  []policy.Grant
	verdict policy.Effect
	// best is the summary of the best flip; after is the verdict after it.
	best  string
	after policy.Effect
}

func calls(name, args string, edits ...func(*policy.Request)) policy.Request {
	r := policytest.Request(name, args)
	r.Facts.SandboxTier, r.Facts.SandboxLevel, r.Facts.EgressMode = "c", "strict", "strict"
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

func runs(program string, argv string, edits ...func(*policy.Request)) policy.Request {
	return calls("process.run", `{"argv":`+argv+`}`, append([]func(*policy.Request){func(r *policy.Request) {
		r.Facts.Exec = &tool.ExecFacts{Basename: program, Path: "/usr/bin/" + program}
	}}, edits...)...)
}

func fetches(host string, edits ...func(*policy.Request)) policy.Request {
	return calls("http.fetch", `{"url":"https://`+host+`/"}`, append([]func(*policy.Request){func(r *policy.Request) {
		r.Facts.Host, r.Facts.Domain, r.Facts.Port, r.Facts.Method = host, host, 443, "GET"
	}}, edits...)...)
}

func writes(path string, more ...string) policy.Request {
	return calls("fs.write", `{"path":"`+path+`"}`, func(r *policy.Request) {
		r.Facts.Path = path
		if len(more) > 0 {
			r.Facts.Paths = append([]string{path}, more...)
		}
	})
}

func denials() []denial {
	risky := func(r *policy.Request) { r.Facts.Risk = 85 }
	bob, carol := policytest.Bob, access.User("carol")
	crew := policytest.Options{TwoUsers: true, Roles: []access.Role{"security"},
		Members: []access.Member{{Principal: carol, Roles: []access.Role{access.RoleOperator}}}}
	two := policytest.Options{TwoUsers: true}
	secure := policytest.Options{TwoUsers: true, Roles: []access.Role{"security"}}
	limited := func(s policy.Snapshot) policytest.Options { return policytest.Options{Snapshot: s} }
	return []denial{
		{name: "tool not on the list", options: limited(policy.Snapshot{AllowedTools: []string{"fs.read"}}),
			request: runs("git", `["git"]`), verdict: policy.Deny, after: policy.Ask,
			best: "Add process.run to allowed_tools, and a person is asked."},
		{name: "principal not on the list", options: limited(policy.Snapshot{AllowedPrincipals: []access.Principal{policytest.Alice}}),
			request: calls("fs.read", `{"path":"a"}`), verdict: policy.Deny, after: policy.Allow,
			best: "Add agent:coder to allowed_principals, and the call is allowed."},
		{name: "principal disabled", options: policytest.Options{Members: []access.Member{{Principal: access.Agent("old"), Owner: policytest.Alice, Disabled: true}}},
			request: calls("fs.read", `{"path":"a"}`, func(r *policy.Request) { r.Caller.Principal = access.Agent("old") }),
			verdict: policy.Deny, after: policy.Allow, best: "Enable agent:old, and the call is allowed."},
		{name: "channel not allowed", request: calls("fs.read", `{"path":"a"}`, func(r *policy.Request) { r.Channel = "slack-general" }),
			verdict: policy.Deny, after: policy.Allow, best: "Allow the channel slack-general (`palyra access allow channel:slack-general`), and the call is allowed."},
		{name: "host not allowed", file: "hosts", request: fetches("paste.example.net"),
			verdict: policy.Deny, after: policy.Ask, best: `Change context.host from "paste.example.net" to "pkg.go.dev", and a person is asked.`},
		{name: "method not allowed", file: "method", request: fetches("example.com", func(r *policy.Request) { r.Facts.Method = "POST" }),
			verdict: policy.Deny, after: policy.Ask, best: `Change context.method from "POST" to "GET", and a person is asked.`},
		{name: "path outside", file: "paths", request: writes("docs/readme.md"),
			verdict: policy.Deny, after: policy.Ask, best: `Change context.path from "docs/readme.md" to "src/readme.md", and a person is asked.`},
		{name: "workspace of others", file: "workspace", options: policytest.Options{Workspaces: []string{"scratch"}}, request: writes("a.txt"),
			verdict: policy.Deny, after: policy.Ask, best: `Change context.workspace from Workspace::"default" to Workspace::"scratch", and a person is asked.`},
		{name: "protected path", file: "protected", request: calls("fs.write", `{"path":".palyra/x"}`, func(r *policy.Request) {
			r.Facts.Path, r.Facts.Protected = ".palyra/x", true
		}), verdict: policy.Deny, after: policy.Ask, best: "Remove or change the forbid protected at protected.cedar:1, and a person is asked."},
		{name: "one of several files", file: "secrets", request: writes("a.txt", "secrets/key", "z.txt"),
			verdict: policy.Deny, after: policy.Ask, best: `Change context.path from "secrets/key" to "file.txt", and a person is asked.`},
		{name: "inline code", file: "inline", request: runs("python3.12", `["python3","-c","1"]`, func(r *policy.Request) {
			r.Facts.Exec.IsInterpreter, r.Facts.Exec.InlineCode = true, true
		}), verdict: policy.Deny, after: policy.Ask, best: "Change context.exec.inline_code from true to false, and a person is asked."},
		{name: "program not known", file: "programs", request: runs("curl", `["curl"]`),
			verdict: policy.Deny, after: policy.Ask, best: `Change context.exec.basename from "curl" to "git", and a person is asked.`},
		{name: "argument of a program", file: "branches", request: runs("git", `["git","push","origin"]`),
			verdict: policy.Deny, after: policy.Ask, best: `Change context.args.argv from ["git", "origin", "push"] to ["git", "origin"], and a person is asked.`},
		{name: "sandbox too weak", file: "sandbox", request: runs("git", `["git"]`, func(r *policy.Request) { r.Facts.SandboxLevel = "preflight" }),
			verdict: policy.Deny, after: policy.Ask, best: "Remove or change the forbid strict-sandbox at sandbox.cedar:1, and a person is asked."},
		{name: "risk above", file: "risk", request: fetches("example.com", risky),
			verdict: policy.Deny, after: policy.Ask, best: "Remove or change the forbid risk-ceiling at risk.cedar:1, and a person is asked."},
		{name: "time window", file: "hours", request: runs("go", `["go"]`, func(r *policy.Request) { r.Time = time.Date(2026, 3, 2, 22, 10, 0, 0, time.UTC) }),
			verdict: policy.Deny, after: policy.Ask, best: `Call at datetime("2026-03-03T08:30:00.000Z") (it is datetime("2026-03-02T22:10:00.000Z")), and a person is asked.`},
		{name: "tainted session", file: "tainted", request: fetches("example.com", func(r *policy.Request) {
			r.SessionFacts.Tainted, r.SessionFacts.SecretsRead = true, []string{"deploy"}
		}), verdict: policy.Deny, after: policy.Ask, best: "Remove or change the forbid tainted at tainted.cedar:1, and a person is asked."},
		{name: "budget of bytes", file: "bytes", request: fetches("example.com", func(r *policy.Request) { r.SessionFacts.BytesOut = 1 << 20 }),
			verdict: policy.Deny, after: policy.Ask, best: "Remove or change the forbid bytes-budget at bytes.cedar:1, and a person is asked."},
		{name: "budget of calls", file: "calls", request: calls("fs.read", `{"path":"a"}`, func(r *policy.Request) { r.SessionFacts.CallsInRun = 25 }),
			verdict: policy.Deny, after: policy.Allow, best: "Remove or change the forbid calls-budget at calls.cedar:1, and the call is allowed."},
		{name: "missing role", file: "role", request: runs("go", `["go"]`), verdict: policy.Deny, after: policy.Ask, best: "Give role developer to agent:coder, and a person is asked."},
		{name: "two approvers where one lives", file: "two", request: runs("go", `["go"]`), options: two,
			verdict: policy.Deny, after: policy.Ask, best: "Add a member with role operator, and a person is asked."},
		{name: "two approvers, one voted", file: "two", request: runs("go", `["go"]`), options: crew,
			votes:   []policy.Vote{policytest.Vote(bob, access.RoleOperator)},
			verdict: policy.Ask, after: policy.Allow, best: "Get a yes of carol, and the call is allowed."},
		{name: "nobody of the role", file: "security", request: runs("go", `["go"]`), options: secure,
			verdict: policy.Deny, after: policy.Ask, best: "Give role security to user:bob, and a person is asked."},
		{name: "surface of the approver", file: "console", request: runs("go", `["go"]`), options: two,
			verdict: policy.Ask, after: policy.Allow, best: "Get a yes of bob on console, and the call is allowed."},
		{name: "proof of the approver", file: "proof", request: runs("go", `["go"]`), options: policytest.Options{
			TwoUsers: true, Roles: []access.Role{"security"},
			Members: []access.Member{{Principal: carol, Roles: []access.Role{access.RoleOperator, "security"}}},
		}, verdict: policy.Ask, after: policy.Allow,
			best: "Get a yes of carol with role security on cli, with presence proven, from a paired device, and the call is allowed."},
		{name: "surface that is not there", file: "console", request: runs("go", `["go"]`),
			options: policytest.Options{TwoUsers: true, Surfaces: []access.Surface{access.SurfaceCLI}},
			verdict: policy.Deny, after: policy.Ask, best: "Remove or change the forbid on-the-console at console.cedar:1, and a person is asked."},
		{name: "standing grant", file: "standing", request: runs("go", `["go"]`), options: two,
			grants:  []policy.Grant{{ID: "g", Approval: policytest.Approval(policytest.Vote(bob, access.RoleOperator))}},
			verdict: policy.Ask, after: policy.Allow, best: "Get a yes of bob, and the call is allowed."},
		{name: "absolute forbid", file: "never", request: runs("go", `["go"]`), verdict: policy.Deny, after: policy.Ask, best: "Remove or change the forbid never-programs at never.cedar:1, and a person is asked."},
		{name: "unknown tool", request: calls("fs.raed", `{"path":"a"}`), verdict: policy.Deny, after: policy.Allow, best: "Call fs.read (no tool is named fs.raed), and the call is allowed."},
		{name: "opaque argument", file: "opaque", request: calls("http.fetch", `{"url":"https://example.com/","headers":{"authorization":"x"}}`),
			verdict: policy.Deny, after: policy.Ask, best: `Call without context.args.headers (it is "{\"authorization\":\"x\"}"), and a person is asked.`},
		{name: "argument too large", file: "limit", request: calls("fs.read", `{"path":"a","limit":5000}`),
			verdict: policy.Deny, after: policy.Allow, best: "Change context.args.limit from 5000 to 1000, and the call is allowed."},
		{name: "nothing permits", file: "deciders", request: fetches("example.com"), options: policytest.Options{Roles: []access.Role{"security"}},
			verdict: policy.Deny, after: policy.Ask, best: "Give role security to user:alice, and a person is asked."},
		{name: "error", file: "overflow", request: calls("fs.read", `{"path":"a"}`, risky, func(r *policy.Request) { r.Facts.Protected = true }),
			verdict: policy.Deny, after: policy.Allow, best: "Remove or change the forbid overflow at overflow.cedar:1, and the call is allowed."},
		{name: "two rules at once", file: "two-rules", request: fetches("example.com", risky, func(r *policy.Request) { r.Facts.EgressMode = "none" }),
			verdict: policy.Deny, after: policy.Ask, best: `Remove or change the forbid strict-only at two-rules.cedar:1, remove or change the forbid no-downloads-at-risk at two-rules.cedar:5, ` +
				`add a permit: permit(principal == Agent::"coder", action == Action::"tool.execute/http.fetch", resource) when { context.approval.granted };, and a person is asked.`},
		{name: "nothing but an approval", request: runs("go", `["go"]`), options: two, verdict: policy.Ask, after: policy.Allow, best: "Get a yes of bob, and the call is allowed."},
	}
}

func (d denial) config(t testing.TB) policy.Config {
	t.Helper()
	o := d.options
	o.Tools = append(o.Tools, write)
	cfg := policytest.Config(o)
	if d.file != "" {
		name := d.file + ".cedar"
		text := must.Get(os.ReadFile(filepath.Join("testdata", "explain", name)))(t)
		cfg.Sources = append(cfg.Sources, policy.Source{Name: name, Text: string(text)})
	}
	return cfg
}

// decide returns the verdict about a call with votes.
func decide(t testing.TB, sc explain.Scenario, grants []policy.Grant) policy.Verdict {
	t.Helper()
	set, err := policy.Load(sc.Config)
	if err != nil {
		t.Fatalf("loading: %v", err)
	}
	return set.Evaluate(sc.Request, grants)
}

func effectOf(t testing.TB, sc explain.Scenario) policy.Effect {
	t.Helper()
	set, err := policy.Load(sc.Config)
	if err != nil {
		t.Fatalf("loading: %v", err)
	}
	if set.Judge(sc.Request, sc.Approval).Allowed {
		return policy.Allow
	}
	return set.Evaluate(sc.Request, nil).Effect()
}

// TestDenialsNameTheDecidingCondition applies, for every denial, the change that its explanation
// lists first, and decides again.
func TestDenialsNameTheDecidingCondition(t *testing.T) {
	t.Parallel()
	for _, d := range denials() {
		t.Run(d.name, func(t *testing.T) {
			from := explain.Scenario{Config: d.config(t), Request: d.request, Approval: policytest.Approval(d.votes...)}
			if v := decide(t, from, d.grants); v.Effect() != d.verdict {
				t.Fatalf("the verdict is %v, want %v", v.Effect(), d.verdict)
			}
			set := must.Get(policy.Load(from.Config))(t)
			e := explain.Verdict(set, from.Request, from.Approval, d.grants)
			if e.Effect != d.verdict || len(e.Flips) == 0 {
				t.Fatalf("explained as %v with %d flips: %s", e.Effect, len(e.Flips), e.Summary)
			}
			if got := e.Flips[0].Summary; got != d.best {
				t.Errorf("best flip\n got %q\nwant %q", got, d.best)
			}
			for _, f := range e.Flips {
				to, err := f.Apply(from)
				if err != nil {
					t.Fatalf("%s: %v", f.Summary, err)
				}
				if got := effectOf(t, to); got != f.Verdict {
					t.Errorf("%s: the verdict became %v, want %v", f.Summary, got, f.Verdict)
				}
			}
			if e.Flips[0].Verdict != d.after {
				t.Errorf("after the best flip: %v, want %v", e.Flips[0].Verdict, d.after)
			}
		})
	}
}
