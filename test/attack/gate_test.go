//go:build linux

package attack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// gateRows are changes that an allowed call's program leaves for others to trust. The changes
// wait for approval at the commit gate. Links that lead outside lead to the gateway's canary.
func gateRows() []struct{ id, variant, python string } {
	return []struct{ id, variant, python string }{
		{"FS-03", "symbolic link swapped in, at the gate", "os.remove('plain'); os.symlink('../outside', 'plain')"},
		{"FS-04", "hard link made before the run, at the gate", "open('alias', 'a').write('evil')"},
		{"FS-05", "new hook, at the gate", "open('.git/hooks/pre-commit', 'w').write('#!/bin/sh')"},
		{"FS-06", "mv .git, at the gate", "shutil.move('.git', '.git2'); os.mkdir('.git'); open('.git/config', 'w').write('[core]')"},
		{"FS-07", "new .mcp.json, at the gate", "open('.mcp.json', 'w').write('{}')"},
		{"FS-07", "script on the protected list, at the gate", "open('deploy/run.sh', 'a').write('evil')"},
	}
}

// gated returns a gateway whose workspace contains everything that gateRows attack.
func gated(t *testing.T, policy string) (g *gateway, outside string) {
	t.Helper()
	g = newGateway(t, policy, `protected = ["deploy/**"]`)
	outside = filepath.Join(g.Dir, "outside")
	g.write(outside, canary)
	g.file("plain", "plain\n")
	g.file("deploy/run.sh", "#!/bin/sh\n")
	must.Do(t, os.Link(outside, filepath.Join(g.Workspace, "alias")))
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"config", "user.name", "x"}, {"config", "user.email", "x@x"}, {"commit", "-q", "--allow-empty", "-m", "first"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", g.Workspace}, args...)...)
		cmd.Env = process.Environment(g.Dir)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, text)
		}
	}
	for _, r := range gateRows() {
		g.file(script(r.variant), "import os, shutil\n"+r.python+"\n")
	}
	g.mustStart()
	return g, outside
}

func script(variant string) string {
	return strings.NewReplacer(" ", "-", ",", "", ".", "").Replace(variant) + ".py"
}

// TestCommitGate: an attack does not change the workspace while it waits or when it is denied,
// and arrives once it is approved. Control: a policy that accepts every change.
func TestCommitGate(t *testing.T) {
	t.Parallel()
	for _, r := range gateRows() {
		t.Run(strings.ReplaceAll(r.id+" "+r.variant, " ", "_"), func(t *testing.T) {
			t.Parallel()
			try := func(decide ...string) (unasked, while, after string, out process.Result) {
				g, outside := gated(t, unattended)
				was := g.look()
				call := g.begin("call", "process.run", "argv="+list([]string{"python3", script(r.variant)}))
				a, asked := call.Asked()
				while = differences(was, g.look())
				if !asked {
					out = call.wait()
					return "nobody was asked", while, differences(was, g.look()), out
				}
				if voted := g.answer(a, decide...); voted.Code != 0 {
					t.Errorf("the answer was not taken: %s", voted.Err)
				}
				out = call.wait()
				if text := read(t, outside); text != canary {
					t.Errorf("what lies outside holds %q", text)
				}
				return "", while, differences(was, g.look()), out
			}
			unasked, while, after, no := try("--deny", "--reason", "no")
			unasked2, while2, allowed, yes := try("--allow", "once")
			if allowed == "" || yes.Code != 0 {
				t.Errorf("what was allowed did not arrive: %s%s", yes.Out, yes.Err)
			}
			free, _ := gated(t, unattended+anyCommit)
			was := free.look()
			c := free.run("python3", script(r.variant))
			record(t, r.id+" "+r.variant, unasked+unasked2+while+while2+after != "", c.Code == 0 && differences(was, free.look()) != "",
				strings.Join([]string{unasked, unasked2, while, while2, after, no.Err, yes.Err, c.Err}, "; "))
		})
	}
}

// TestGitCommitNeedsNoApproval: the commit gate requires no approval if nothing is protected.
func TestGitCommitNeedsNoApproval(t *testing.T) {
	t.Parallel()
	g, _ := gated(t, unattended)
	g.file("new.txt", "new\n")
	for _, argv := range [][]string{{"git", "add", "new.txt"}, {"git", "commit", "-q", "-m", "second"}} {
		if r := g.run(argv...); r.Code != 0 || strings.Contains(r.Err, "waiting for approval") {
			t.Fatalf("%v: exit code %d\n%s%s", argv, r.Code, r.Out, r.Err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "git", "-C", g.Workspace, "log", "--oneline", "--", "new.txt")
	cmd.Env = process.Environment(g.Dir)
	text, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "second") {
		t.Errorf("the commit is not in the history: %s", errors.Join(err, errors.New(string(text))))
	}
}
