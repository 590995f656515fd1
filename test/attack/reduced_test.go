//go:build linux

package attack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"palyra/internal/core/must"
	"palyra/test/process"
)

const noDeletion = `
@id("no-deletion") @reason("nothing is deleted") forbid(principal, action == Action::"workspace.commit", resource) when { context.changes.deleted > 0 };`

// reducedRows are attacks by members whose rights were reduced after their work began, or who
// undo what others allowed.
func reducedRows() []factRow {
	return []factRow{
		{"GW2-10", "taking back what policy forbids to delete", unattended + noDeletion, unattended, func(g *gateway, _ bool) string {
			g.run("touch", "made")
			r := g.palyra("workspace", "undo", g.changeSet())
			return r.Err + g.gone("made")
		}},
		{"GW2-10", "taking back while the gateway is frozen", unattended, unattended, func(g *gateway, late bool) string {
			dev := g.member("dev", "developer")
			g.run("touch", "made")
			set := g.changeSet()
			if late {
				g.palyra("freeze", "--reason", "look")
			}
			r := g.palyra("--credentials", dev, "workspace", "undo", set)
			return r.Err + g.gone("made")
		}},
		{"GW2-11", "call of a revoked device goes on", unattended, unattended, func(g *gateway, late bool) string {
			return g.reduced(late, func() { g.palyra("devices", "revoke", g.device("dev"), "--reason", "lost", "--yes") })
		}},
		{"GW2-11", "call of a disabled member goes on", unattended, unattended, func(g *gateway, late bool) string {
			return g.reduced(late, func() { g.palyra("members", "disable", "dev", "--reason", "left", "--yes") })
		}},
		{"GW2-11", "call of a member whose role was taken goes on", unattended, unattended, func(g *gateway, late bool) string {
			return g.reduced(late, func() { g.palyra("members", "roles", "dev", "--remove", "operator", "--yes") })
		}},
	}
}

// member creates a member and returns the directory of its credentials.
func (g *gateway) member(name string, roles ...string) string {
	dir := filepath.Join(g.Dir, name)
	args := []string{"--config", g.Config, "operator", "add", name, "--yes", "--out", dir}
	for _, r := range roles {
		args = append(args, "--role", r)
	}
	palyrad := filepath.Join(filepath.Dir(g.client), "palyrad")
	process.Finish(g.T, exec.CommandContext(g.T.Context(), palyrad, args...)).Want(g.T, 0)
	return dir
}

// device returns the device id of a member.
func (g *gateway) device(member string) string {
	for line := range strings.Lines(g.palyra("devices", "list", "-o", "wide").Out) {
		if strings.Contains(line, "user:"+member) {
			return strings.Fields(line)[0]
		}
	}
	g.T.Fatalf("%s has no device", member)
	return ""
}

// changeSet returns the id of the newest change set.
func (g *gateway) changeSet() string {
	id, _, _ := strings.Cut(g.palyra("workspace", "changes", "-o", "name").Out, "\n")
	return id
}

// gone returns the canary if a file of the workspace does not exist.
func (g *gateway) gone(name string) string {
	if _, err := os.Stat(filepath.Join(g.Workspace, name)); errors.Is(err, os.ErrNotExist) {
		return canary
	}
	return ""
}

// reduced has a member start a program that ignores signals, reduces the member's rights, and
// returns what the program wrote to the workspace. The program would run for a while. In the
// control, no rights are reduced and the program ends at once.
func (g *gateway) reduced(late bool, reduce func()) string {
	return g.reducedWith(late, g.member("dev", "developer", "operator"), reduce)
}

// reducedWith is reduced for the holder of a credential.
func (g *gateway) reducedWith(late bool, credentials string, reduce func()) string {
	g.ignoreSignals()
	seconds, token := map[bool]string{true: "20", false: "0"}[late], filepath.Base(g.Dir)
	call := g.begin("--credentials", credentials, "call", "process.run", "argv="+list([]string{"python3", "stubborn.py", seconds, canary, token}))
	if late {
		must.Eventually(g.T, "the program runs", func() (bool, string) { return inSandbox("python3", token) > 0, call.Err.String() })
		reduce()
	}
	call.wait()
	return g.Read("made")
}

// ignoreSignals writes a program that ignores signals and creates a file after some time.
func (g *gateway) ignoreSignals() {
	g.file("stubborn.py", "import signal, sys, time\nfor s in signal.SIGTERM, signal.SIGINT, signal.SIGHUP: signal.signal(s, signal.SIG_IGN)\n"+
		"time.sleep(int(sys.argv[1]))\nopen('made', 'w').write(sys.argv[2])\n")
}
