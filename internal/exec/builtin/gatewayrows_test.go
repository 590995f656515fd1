//go:build unix

package builtin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

// canary is the text that no call of these rows may disclose.
const canary = "canary-of-this-test"

// gatewayRow is an attack on a rule about files, by a call that runs if policy allows it. Its
// control disables one protection.
type gatewayRow struct {
	id, variant string
	prepare     func(*bench)
	tool        string
	in          object
	policies    func(*testing.T) policy.Source
	// off removes the protection from the policies, or unsee from the facts.
	off   func(string) string
	unsee func(*tool.Facts)
}

func own(text string) func(*testing.T) policy.Source {
	return func(*testing.T) policy.Source { return policy.Source{Name: "own.cedar", Text: text} }
}

func laptopPolicy(t *testing.T) policy.Source { return laptop(t) }

// byPath replaces the folded path in a rule with the path.
func byPath(text string) string { return strings.ReplaceAll(text, "path_folded", "path") }

// without removes a text from a policy, or replaces it.
func without(old, instead string) func(string) string {
	return func(text string) string { return strings.ReplaceAll(text, old, instead) }
}

func secretAt(name string) func(*bench) { return func(b *bench) { b.write(name, canary+"\n") } }

// linkedSecret creates a hard link in the workspace to a secret outside.
func linkedSecret(name string) func(*bench) {
	return func(b *bench) {
		secret, full := filepath.Join(filepath.Dir(b.dir), "secret"), filepath.Join(b.dir, name)
		must.Do(b.t, os.MkdirAll(filepath.Dir(full), 0o755))
		must.Do(b.t, os.WriteFile(secret, []byte(canary+"\n"), 0o600))
		must.Do(b.t, os.Link(secret, full))
	}
}

const noSecrets = `@id("no-secrets") forbid(principal, action in Action::"tool.execute", resource)
when { context has path_folded && context.path_folded like "clés/*" };`

var gatewayRows = []gatewayRow{
	{id: "GW-08", variant: "secret in capitals", prepare: secretAt("CL\u00c9S/token"), tool: fsReadName, in: object{"path": "CL\u00c9S/token"},
		policies: own(noSecrets), off: byPath},
	{id: "GW-08", variant: "secret in decomposed letters", prepare: secretAt("cle\u0301s/token"), tool: fsReadName, in: object{"path": "cle\u0301s/token"},
		policies: own(noSecrets), off: byPath},
	{id: "GW-08", variant: "secret with a letter that folds", prepare: secretAt("cle\u0301\u017f/token"), tool: fsReadName, in: object{"path": "cle\u0301\u017f/token"},
		policies: own(noSecrets), off: byPath},
	{id: "GW-08", variant: "secret with a character that is not seen", prepare: secretAt("cl\u00e9\u200ds/token"), tool: fsReadName, in: object{"path": "cl\u00e9\u200ds/token"},
		policies: own(noSecrets), off: byPath},
	{id: "GW-08", variant: "secret file of the profile in capitals", prepare: secretAt("SECRETS/.ENV"), tool: fsReadName, in: object{"path": "SECRETS/.ENV"},
		policies: laptopPolicy, off: byPath},
	{id: "GW-08", variant: "secret file of the profile, searched", prepare: secretAt(".env"), tool: fsSearchName, in: object{"path": ".env", "pattern": "canary"},
		policies: laptopPolicy, off: without(`"*.env"`, `"*.envs"`)},
	{id: "GW-08", variant: "secret file of the profile, found in capitals", prepare: secretAt("app/PROD.ENV"), tool: fsSearchName, in: object{"pattern": "canary"},
		policies: laptopPolicy, off: byPath},
	{id: "GW-08", variant: "key that was put aside", prepare: secretAt("tls/server.pem.bak"), tool: fsReadName, in: object{"path": "tls/server.pem.bak"},
		policies: laptopPolicy, off: without(`"*.pem*"`, `"*.pem"`)},
	{id: "GW-09", variant: "another name of a secret outside", prepare: linkedSecret("notes.txt"), tool: fsReadName, in: object{"path": "notes.txt"},
		policies: laptopPolicy, off: without("context.hard_links > 1", "context.hard_links > 99")},
	{id: "GW-09", variant: "another name of a secret outside, searched", prepare: linkedSecret("docs/notes.txt"), tool: fsSearchName,
		in: object{"path": "docs/notes.txt", "pattern": "canary"}, policies: laptopPolicy, off: without("context.hard_links > 1", "context.hard_links > 99")},
	{id: "GW-09", variant: "another name of a secret outside, found", prepare: linkedSecret("docs/notes.txt"), tool: fsSearchName,
		in: object{"pattern": "canary"}, policies: laptopPolicy, off: without("context.hard_links > 1", "context.hard_links > 99")},
	{id: "GW-09", variant: "another name below a name like packages", prepare: linkedSecret("my_node_modules/notes.txt"), tool: fsReadName,
		in: object{"path": "my_node_modules/notes.txt"}, policies: laptopPolicy, off: without(`"*/node_modules/*"`, `"*node_modules/*"`)},
	{id: "GW-09", variant: "another name by a link among packages", tool: fsReadName, in: object{"path": "node_modules/notes.txt"},
		prepare: func(b *bench) {
			linkedSecret("notes.txt")(b)
			b.write("node_modules/a/index.js", "")
			must.Do(b.t, os.Symlink("../notes.txt", filepath.Join(b.dir, "node_modules/notes.txt")))
		},
		policies: laptopPolicy, unsee: func(f *tool.Facts) { f.Path, f.PathFolded = "node_modules/notes.txt", "node_modules/notes.txt" }},
	{id: "GW-09", variant: "another name through a parent of packages", tool: fsReadName, in: object{"path": "node_modules/../notes.txt"},
		prepare: func(b *bench) {
			linkedSecret("notes.txt")(b)
			b.write("node_modules/a/index.js", "")
		},
		policies: laptopPolicy, unsee: func(f *tool.Facts) { f.Path, f.PathFolded = "node_modules/../notes.txt", "node_modules/../notes.txt" }},
}

// TestGatewayRows runs the attacks. None discloses the canary without an approval, and each
// does so if its protection is disabled.
func TestGatewayRows(t *testing.T) {
	t.Parallel()
	for _, row := range gatewayRows {
		t.Run(row.id+" "+row.variant, func(t *testing.T) {
			b := newBench(t, nil)
			row.prepare(b)
			if got := b.under(row.policies(t)).attacked(row, nil); got {
				t.Error("the attack succeeded")
			}
			source := row.policies(t)
			if row.off != nil {
				text := row.off(source.Text)
				if text == source.Text {
					t.Fatal("the control switches nothing off")
				}
				source.Text = text
			}
			if got := b.under(source).attacked(row, row.unsee); !got {
				t.Error("the control failed: without the protection the attack does not work")
			}
		})
	}
}

// attacked makes the call if policy allows it without an approval, and reports whether its result
// contains the canary.
func (j judged) attacked(row gatewayRow, unsee func(*tool.Facts)) bool {
	j.t.Helper()
	p := must.Get(j.propose(row.tool, row.in))(j.t)
	plan := must.Get(j.plan(row.tool, row.in))(j.t)
	r := policytest.Request(row.tool, string(p.Input))
	r.Facts = plan.Facts
	if unsee != nil {
		unsee(&r.Facts)
	}
	if j.set.Evaluate(r, nil).Effect() != policy.Allow {
		return false
	}
	report := j.run(j.t.Context(), tool.Call{Proposal: p, Plan: plan, MayRead: func(a tool.FileAccess) bool {
		r.Tool, r.Args, r.Facts = a.Tool, a.Input, a.Facts
		return j.set.Evaluate(r, nil).Effect() == policy.Allow
	}})
	return strings.Contains(string(report.Result), canary)
}

// TestGatewayRowOfPatch covers GW-08, where the second file of a patch has another spelling.
// The rule forbids a call that could otherwise be approved.
func TestGatewayRowOfPatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.write("CL\u00c9S/token", "old\n")
	const diff = "--- a/docs/a.md\n+++ b/docs/a.md\n@@ -1 +1 @@\n-old\n+new\n--- a/CL\u00c9S/token\n+++ b/CL\u00c9S/token\n@@ -1 +1 @@\n-old\n+new\n"
	b.write("docs/a.md", "old\n")
	in := object{"patch": diff}
	source := own(noSecrets)(t)
	if got := b.under(source).verdict(fsPatchName, in); got != policy.Deny {
		t.Errorf("the patch is judged %v", got)
	}
	source.Text = byPath(source.Text)
	if got := b.under(source).verdict(fsPatchName, in); got != policy.Ask {
		t.Errorf("the control failed: by context.path the patch is judged %v", got)
	}
}
