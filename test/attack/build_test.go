//go:build linux

package attack

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/bubblewrap"
)

// brokenBwrap returns a bubblewrap wrapper that passes further options, which create something
// below the workspace. The product never does that.
func brokenBwrap(t *testing.T, options string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bwrap")
	script := `#!/bin/sh
[ "$1" = --args ] || exec /usr/bin/bwrap "$@"
fd=$2; shift 2
exec env -i /usr/bin/bwrap --args "$fd" ` + options + ` "$@"
`
	// A forked process that holds the file open for writing would make execve(2) fail (ETXTBSY).
	syscall.ForkLock.RLock()
	err := os.WriteFile(name, []byte(script), 0o755)
	syscall.ForkLock.RUnlock()
	must.Do(t, err)
	for dir := filepath.Dir(name); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must.Do(t, os.Chmod(dir, 0o755))
	}
	return name
}

// TestLinkToOldRoot: while it builds the root, bubblewrap before 0.12 follows links of the
// workspace to the host. A runner that creates nothing below the workspace is safe from it.
func TestLinkToOldRoot(t *testing.T) {
	t.Parallel()
	try := func(bwrap string) string {
		c := newScene(t)
		for _, name := range []string{".git", ".mcp.json", "evil", "node_modules", "tmp", "etc"} {
			c.must(os.Symlink("/oldroot"+c.outside, filepath.Join(c.workspace, name)))
		}
		c.spec.Workspace = sandbox.Direct
		before := c.look()
		r, err := bubblewrap.New(configOf(nil, bwrap))
		c.must(err)
		defer r.Close()
		c.program("true")
		_, _ = r.Run(t.Context(), c.spec) // a broken root is an error, which the control needs
		after := c.look()
		return differences(before[0], after[0]) + differences(before[1], after[1])
	}
	o := outcome{denied, failed}
	if left := try(""); left != "" {
		o.Attack = escaped
		t.Errorf("ESCAPE: %s", left)
	}
	// A fixed bubblewrap refuses the link, and still makes the plain name.
	if try(brokenBwrap(t, "--dir /workspace/evil/ghost")) != "" || try(brokenBwrap(t, "--dir /workspace/ghost")) != "" {
		o.Control = succeeded
	} else {
		t.Error("the control made nothing on the host")
	}
	results.record("FS-10 link to /oldroot", o)
}

// sweep removes the control groups of killed processes, as the next start does.
func sweep(c *scene) {
	r, err := bubblewrap.New(configOf(nil, ""))
	c.must(err)
	defer r.Close()
	c.must(r.Sweep(c.t.Context()))
}

// TestFilesLeftBehind kills palyrad in the middle of a run and checks the files that remain.
func TestFilesLeftBehind(t *testing.T) {
	t.Parallel()
	try := func(bwrap string) string {
		c := newScene(t)
		c.spec.Workspace, c.spec.Argv = sandbox.Direct, []string{"./probe", "wait", c.token}
		before := c.look()
		cmd := child(t, order{c.spec, configOf(nil, bwrap)})
		var out bytes.Buffer
		cmd.Stdout = &out
		says, err := cmd.StderrPipe()
		c.must(err)
		c.must(cmd.Start())
		line, _ := bufio.NewReader(says).ReadString('\n')
		c.must(cmd.Process.Kill())
		_ = cmd.Wait()
		if !strings.Contains(line, "waiting") {
			t.Fatalf("the program did not start: %q, %.2000s", line, out.String())
		}
		must.Eventually(t, "the run has ended", func() (bool, string) { return len(processesWith(c.token)) == 0, "it goes on" })
		sweep(c)
		after := c.look()
		return differences(before[0], after[0]) + differences(before[1], after[1])
	}
	o := outcome{denied, failed}
	if left := try(""); left != "" {
		o.Attack = escaped
		t.Errorf("ESCAPE: %s", left)
	}
	if try(brokenBwrap(t, "--ro-bind /dev/null /workspace/.mcp.json")) != "" {
		o.Control = succeeded
	} else {
		t.Error("the control left nothing on the host")
	}
	results.record("FS-11 files left behind by SIGKILL", o)
}
