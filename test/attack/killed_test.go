//go:build linux

package attack

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
)

// TestKilledGateway kills palyrad with SIGKILL during a run and while a change set waits at the
// gate. The processes end with palyrad; the next start removes everything else.
func TestKilledGateway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		variant string
		// begin starts a call and returns when it has reached the required state.
		begin func(g *gateway, token string) *waiting
	}{
		{"killed during a run", func(g *gateway, token string) *waiting {
			call := g.begin("call", "process.run", "argv="+list([]string{"./probe", "wait", token}))
			must.Eventually(g.T, "the program runs", func() (bool, string) {
				return inSandbox("probe", token) > 0, fmt.Sprint(processesWith(token)) + call.Err.String()
			})
			return call
		}},
		{"killed at the gate", func(g *gateway, token string) *waiting {
			call := g.begin("call", "process.run", "argv="+list([]string{"./probe", "put", ".mcp.json", token}))
			if _, ok := call.Asked(); !ok {
				g.T.Errorf("nobody was asked: %s", call.wait().Err)
			}
			return call
		}},
	} {
		t.Run(strings.ReplaceAll(c.variant, " ", "_"), func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, unattended)
			must.Do(t, os.WriteFile(filepath.Join(g.Workspace, "probe"), places.probe.content, 0o755))
			g.mustStart()
			token := filepath.Base(g.Dir)
			work, state := g.look(), g.directories()
			pid := g.Cmd.Process.Pid
			call := c.begin(g, token)
			g.end(syscall.SIGKILL)
			call.wait()
			must.Eventually(t, "the program is gone", func() (bool, string) { return inSandbox("probe", token) == 0, "it goes on" })
			// Control: before the next start, some state remains to be swept.
			left := g.remains(pid, state)
			g.mustStart()
			attack := strings.Join(g.remains(pid, state), "; ") + differences(work, g.look())
			record(t, "GW-02 "+c.variant, attack != "", len(left) > 0, fmt.Sprintf("left before the start: %v; after it: %s", left, attack))
		})
	}
}

// inSandbox counts the processes of a run whose program name starts with the text and whose
// arguments contain the token. The palyra process has the token, too.
func inSandbox(program, token string) int {
	n := 0
	for _, pid := range processesWith(token) {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil && strings.HasPrefix(string(name), program) {
			n++
		}
	}
	return n
}

// directories lists the directories below the state directory, which include layers.
func (g *gateway) directories() []string {
	var list []string
	_ = filepath.WalkDir(g.State, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			list = append(list, path)
		}
		return nil
	})
	return list
}

// remains lists the objects that a palyrad left on the machine: control groups, mounts, and new
// directories.
func (g *gateway) remains(pid int, before []string) []string {
	var list []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), fmt.Sprintf("palyra-%d-", pid)) {
			list = append(list, path)
		}
		return nil
	})
	if mounts, err := os.ReadFile("/proc/self/mounts"); err == nil && strings.Contains(string(mounts), g.Dir) {
		list = append(list, "a mount in "+g.Dir)
	}
	// A running palyrad has a directory that is named after its process.
	own := fmt.Sprintf("/%d-", g.Cmd.Process.Pid)
	for _, dir := range g.directories() {
		if !slices.Contains(before, dir) && (pid == g.Cmd.Process.Pid || !strings.Contains(dir, own)) {
			list = append(list, dir)
		}
	}
	return list
}

// TestConcurrentRuns adds lines to a file from several concurrent runs. A line that a call
// reports as written must be in the file. On copies, a run that finishes too late gets an
// error. Control: on the workspace itself, lines are lost.
func TestConcurrentRuns(t *testing.T) {
	t.Parallel()
	// On the workspace itself, the runs wait until all of them have read. On copies, no run sees
	// the others, so each waits for a fixed time.
	const count = `import os, sys, time
who, wait = sys.argv[1], float(sys.argv[2])
lines = open('lines').read()
open('read-' + who, 'w').close()
end = time.monotonic() + wait
while time.monotonic() < end and not all(os.path.exists('read-' + w) for w in 'abc'):
    time.sleep(0.01)
open('lines', 'w').write(lines + who + '\n')
`
	// try returns how many runs reported a line and how many lines the file has.
	try := func(mode, wait string) (said, did int, text string) {
		g := newGateway(t, unattended, "mode = \""+mode+"\"")
		g.file("lines", "")
		g.file("count.py", count)
		g.mustStart()
		var calls []*waiting
		for _, who := range []string{"a", "b", "c"} {
			calls = append(calls, g.begin("call", "process.run", "argv="+list([]string{"python3", "count.py", who, wait})))
		}
		for _, call := range calls {
			r := call.wait()
			if r.Code == 0 {
				said++
			} else if mode == "copy_on_write" && !strings.Contains(r.Err, "COMMIT_CONFLICT") {
				t.Errorf("a run failed, and not for a conflict: %s", r.Err)
			}
			text += r.Err
		}
		return said, strings.Count(g.Read("lines"), "\n"), text
	}
	said, did, text := try("copy_on_write", "0.5")
	saidThen, didThen, _ := try("direct", "30")
	record(t, "GW-07 concurrent runs", said != did || said == 0, saidThen > didThen, fmt.Sprintf("%d said that they added a line, %d did: %s", said, did, text))
}
