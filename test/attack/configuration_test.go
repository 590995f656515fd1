//go:build linux

package attack

import (
	"os"
	"path/filepath"

	"palyra/internal/core/must"
)

// configurationRows are attacks by another user of the host who can change files that palyrad
// reads, and by a server that is added after a policy about it.
func configurationRows() []factRow {
	const forbidsLater = freeHere + `
@id("later") @reason("not this tool") forbid(principal, action == Action::"tool.execute/library/echo", resource);`
	return []factRow{
		{"GW2-19", "policy directory that others may write", "", "", func(g *gateway, late bool) string {
			return g.obeys(late, func(dir string) error { return os.Chmod(dir, 0o777) })
		}},
		{"GW2-19", "policy file that others may write", "", "", func(g *gateway, late bool) string {
			return g.obeys(late, func(dir string) error { return os.Chmod(filepath.Join(dir, "10.cedar"), 0o666) })
		}},
		{"GW2-19", "tool that comes after the policy that forbids it", forbidsLater, freeHere, func(g *gateway, _ bool) string {
			e := g.entrances()
			e.upstream()
			return e.call("library/echo", `{"path":"`+evil+`"}`)
		}},
	}
}

// otherUserRows are attacks by another user. Only root can create that user's files.
func otherUserRows() []factRow {
	const nobody = 65534
	return []factRow{
		{"GW2-19", "policy directory behind the link of another user", "", "", func(g *gateway, late bool) string {
			return g.obeys(late, func(string) error { return os.Lchown(g.Policies, nobody, nobody) })
		}},
		{"GW2-19", "policy directory of another user", "", "", func(g *gateway, late bool) string {
			return g.obeys(late, func(dir string) error { return os.Chown(dir, nobody, nobody) })
		}},
	}
}

// obeys replaces the policy directory by a link to another directory, whose policy lets
// everything run without approval. It returns the canary if a program runs after a reload. An
// attacker changes the directory late.
func (g *gateway) obeys(late bool, spoil func(dir string) error) string {
	g.T.Helper()
	dir := filepath.Join(g.Dir, "others")
	g.write(filepath.Join(dir, "10.cedar"), unattended)
	must.Do(g.T, os.RemoveAll(g.Policies))
	must.Do(g.T, os.Symlink(dir, g.Policies))
	if late {
		must.Do(g.T, spoil(dir))
	}
	r := g.palyra("policy", "reload")
	g.file("plain.txt", canary)
	return g.unasked("process.run", argv("cp", "plain.txt", "made")) + r.Err
}
