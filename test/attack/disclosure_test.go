//go:build linux

package attack

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
)

// developerForbidden forbids the secret files to one member only.
const developerForbidden = `
@id("no-secret-for-dev") forbid(principal == User::"dev", action in Action::"tool.execute", resource) when { context has path_folded && context.path_folded like "*secret*" };`

// disclosureRows are attacks by callers who may not read a file, through methods that read:
// change sets, the status, exports, attestations, explanations and retries.
func disclosureRows() []factRow {
	const (
		agentsSeeWorkspaces  = `@id("workspaces") permit(principal, action == Action::"workspace.read", resource);`
		developersSeeJournal = `@id("journal") permit(principal, action == Action::"journal.read", resource);`
	)
	return []factRow{
		{"GW2-12", "diff of a change set", unattended + developerForbidden, unattended, func(g *gateway, _ bool) string {
			dev := g.member("dev", "developer")
			g.file("plain.txt", canary+"\n")
			g.run("cp", "plain.txt", "secret.txt")
			r := g.palyra("--credentials", dev, "workspace", "show", g.changeSet(), "-o", "json")
			return r.Out + r.Err
		}},
		{"GW2-12", "path of the host in the status of an agent", "", agentsSeeWorkspaces, func(g *gateway, _ bool) string {
			return strings.ReplaceAll(g.palyra("--credentials", g.newAgent("coder"), "status", "-o", "json").Out, g.Workspace, canary)
		}},
		{"GW2-12", "export of the question about a file", readForbidden, "", func(g *gateway, _ bool) string {
			return g.exports(canary)
		}},
		{"GW2-12", "digest of a file in an attestation", unattended, unattended + developersSeeJournal, func(g *gateway, _ bool) string {
			dev := g.member("dev", "developer")
			g.palyra("call", "fs.write", "path=made", "content="+canary)
			id := strings.TrimSpace(g.palyra("attest", "list", "--limit", "1", "-o", "name").Out)
			r := g.palyra("--credentials", dev, "attest", "show", id, "-o", "json")
			return withDigest(canary, r.Out) + r.Err
		}},
		{"GW2-12", "program of a script in an explanation", developerForbidden, "", func(g *gateway, _ bool) string {
			return g.explains("#!/usr/bin/"+canary+"\n", "process.run", `argv=["./secret.sh"]`)
		}},
		{"GW2-12", "digest of a script in an explanation", developerForbidden, "", func(g *gateway, _ bool) string {
			const script = "#!/usr/bin/python3\n"
			return withDigest(script, g.explains(script, "process.run", `argv=["./secret.sh"]`))
		}},
		{"GW2-12", "target of a link in an explanation", developerForbidden, "", func(g *gateway, _ bool) string {
			g.file("secret-"+canary, "")
			g.turn("secret-"+canary, "link")
			return g.explains("", "fs.read", "path=link")
		}},
		{"GW2-12", "result of a call that is now forbidden", "", "", func(g *gateway, late bool) string {
			dev := g.member("dev", "developer")
			g.file("secret.txt", canary)
			read := []string{"--credentials", dev, "call", "fs.read", "path=secret.txt", "--idempotency-key", "again"}
			g.palyra(read...)
			if late {
				g.policy(developerForbidden)
			}
			g.file("secret.txt", "another text")
			r := g.palyra(read...)
			return r.Out + r.Err
		}},
	}
}

// policy adds a policy to a running gateway.
func (g *gateway) policy(text string) {
	g.T.Helper()
	g.write(filepath.Join(g.Policies, "20.cedar"), text)
	if r := g.palyra("policy", "reload"); r.Code != 0 {
		g.T.Fatal(r.Err)
	}
}

// newAgent creates an agent of local and returns the directory of its credentials.
func (g *gateway) newAgent(name string) string {
	g.T.Helper()
	dir := filepath.Join(g.Dir, name)
	if r := g.palyra("members", "add", name, "--role", "agent", "--owner", "user:local", "--out", dir); r.Code != 0 {
		g.T.Fatal(r.Err)
	}
	return dir
}

// exports creates an approval request to overwrite a secret file with the content, and returns
// an auditor's export of it.
func (g *gateway) exports(content string) string {
	g.T.Helper()
	g.file("secret.txt", content)
	auditor := g.member("eve", "auditor")
	call := g.begin("call", "fs.write", "path=secret.txt", "content=x", "mode=overwrite")
	a, asked := call.Asked()
	if !asked {
		g.T.Fatalf("people are not asked: %s", call.wait().Err)
	}
	r := g.palyra("--credentials", auditor, "approvals", "export")
	g.answer(a, "--deny", "--reason", "no")
	call.wait()
	return r.Out + r.Err
}

// explains requests, as a developer, the explanation of a call about a secret file.
func (g *gateway) explains(script string, call ...string) string {
	g.T.Helper()
	dev := g.member("dev", "developer")
	if script != "" {
		g.executable("secret.sh", script)
	}
	r := g.palyra(append([]string{"--credentials", dev, "policy", "explain", "-o", "json"}, call...)...)
	return r.Out + r.Err
}

// withDigest replaces the digest of a content by the canary.
func withDigest(content, text string) string {
	sum := sha256.Sum256([]byte(content))
	return strings.ReplaceAll(text, hex.EncodeToString(sum[:]), canary)
}
