//go:build linux

package attack

import (
	"strings"

	"palyra/internal/core/must"
)

// questionRows are attacks by requesters who try to see a file through the approval request
// about it.
func questionRows() []factRow {
	return []factRow{
		{"GW2-03", "question about a file that the requester may not read", readForbidden, "", func(g *gateway, _ bool) string {
			return g.asksAbout("secret.txt", "developer", "auditor")
		}},
		{"GW2-03", "question about a file that an auditor may not read", readForbidden, "", func(g *gateway, _ bool) string {
			return g.asksAbout("secret.txt", "developer")
		}},
	}
}

// asksAbout has a member request to overwrite a file, and cancel. It returns the output that
// the member and an auditor saw.
func (g *gateway) asksAbout(path string, roles ...string) string {
	g.file(path, canary)
	dev, auditor := g.member("dev", roles...), g.member("eve", "auditor")
	call := g.begin("--credentials", dev, "call", "fs.write", "path="+path, "content=x", "mode=overwrite")
	var id string
	must.Eventually(g.T, "people are asked", func() (bool, string) {
		id = strings.TrimSpace(g.palyra("approvals", "list", "-o", "name").Out)
		return id != "", call.Err.String()
	})
	seen := []string{"--credentials", auditor, "approvals", "show", id, "-o", "json"}
	if len(roles) > 1 { // the member is an auditor as well
		seen[1] = dev
	}
	r := g.palyra(seen...)
	g.palyra("--credentials", dev, "approvals", "cancel", id)
	call.wait()
	return r.Out + r.Err + call.Out.String() + call.Err.String()
}
