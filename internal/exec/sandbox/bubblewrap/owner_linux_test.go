package bubblewrap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// A workspace of any owner can be used, and new files belong to its owner.
func TestOwnerOfWorkspace(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only a daemon that is root has workspaces of others; TestOrdinaryUser covers the rest")
	}
	for _, owner := range []int{0, 4242, firstUser} {
		root := jailtest.Workspace(t)
		jailtest.WriteFile(t, filepath.Join(root, "secret"), "mine", 0o600)
		for _, name := range []string{root, filepath.Join(root, "secret")} {
			must.Do(t, os.Chown(name, owner, owner))
		}
		out := jailtest.Output(t, newTestRunner(t), jailtest.Shell(t, root,
			"cat secret; echo more >> secret; echo new > new; mkdir -p d/e; echo x > d/e/f; stat -c '%u %n' secret new"))
		if !strings.HasPrefix(out, "mine1000 secret\n1000 new\n") {
			t.Errorf("owner %d: inside: %q", owner, out)
		}
		for _, name := range []string{"secret", "new", "d", "d/e/f"} {
			info := must.Get(os.Stat(filepath.Join(root, name)))(t)
			st := info.Sys().(*syscall.Stat_t)
			if int(st.Uid) != owner || int(st.Gid) != owner {
				t.Errorf("owner %d: %s belongs to %d:%d", owner, name, st.Uid, st.Gid)
			}
		}
	}
}

// asUser runs a spec in a daemon of an ordinary user and returns its result.
func asUser(t *testing.T, root string, s sandbox.Spec, hosts ...string) childResult {
	t.Helper()
	cmd := jailtest.Again(t, childSpec, childOrder{s, hosts})
	jailtest.Demote(t, cmd, filepath.Dir(root)) // the child stores its state there
	var result childResult
	jailtest.Answer(t, cmd, &result)
	if result.UID == 0 {
		t.Fatal("the child is root")
	}
	return result
}

func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	result := asUser(t, root, jailtest.Shell(t, root, "id -u; echo made > made; cat /etc/shadow"))
	if result.Error != "" {
		t.Fatalf("Run: %s", result.Error)
	}
	if got := string(result.Report.Stdout.Head); got != "1000\n" {
		t.Errorf("stdout = %q", got)
	}
	if !strings.Contains(string(result.Report.Stderr.Head), "shadow") {
		t.Errorf("stderr = %q", result.Report.Stderr.Head)
	}
	info := must.Get(os.Stat(filepath.Join(root, "made")))(t)
	if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != result.UID {
		t.Errorf("the file belongs to %d, the user is %d", st.Uid, result.UID)
	}
	i := result.Report.Isolation
	if !jail.Empty(i.CapBnd) || !i.NoNewPrivs || i.SeccompMode != 2 {
		t.Errorf("isolation = %+v", i)
	}
}

// TestReservedAddresses: without control groups as well, a program may reserve address space like
// V8 does for WebAssembly, and writable memory like a sanitizer. It may not use more memory than
// its limit.
func TestReservedAddresses(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	const sanitizer = "import mmap; m = mmap.mmap(-1, 16 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000); m[0] = 1; print('sanitized')"
	const reserve = "import mmap; m = mmap.mmap(-1, 20 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0); print('reserved')"
	s := jailtest.Shell(t, root, `python3 -c "`+reserve+`"; python3 -c "`+sanitizer+`"; python3 -c "import time; b = bytearray(b'x') * (256 << 20); time.sleep(3600)"`)
	s.Limits.Memory = 128 << 20
	result := asUser(t, root, s)
	if got := string(result.Report.Stdout.Head); got != "reserved\nsanitized\n" || result.Report.Quota != sandbox.QuotaMemory {
		t.Errorf("Run: %s, quota %q, stdout %q, stderr %q", result.Error, result.Report.Quota, got, result.Report.Stderr.Head)
	}
}

// The daemon of an ordinary user needs no privileges for copies and pins, because the kernel
// grants them in a user namespace.
func TestOrdinaryUserModes(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	jailtest.WriteFile(t, filepath.Join(root, "kept"), "kept", 0o644)
	jailtest.WriteFile(t, filepath.Join(root, ".mcp.json"), "mcp", 0o644)
	s := copied(jailtest.Shell(t, root, "echo more >> kept; echo new > new; id -u; grep -c 1000 /proc/self/uid_map; cat kept"))
	s.Operands = []tool.Operand{operandOf(t, root, "kept")}
	result := asUser(t, root, s)
	if result.Error != "" || string(result.Report.Stdout.Head) != "1000\n1\nkeptmore\n" || !slices.Contains(result.Report.Applied, jail.LayerCopy) {
		t.Errorf("Run: %s, stdout %q, stderr %q, applied %v", result.Error, result.Report.Stdout.Head, result.Report.Stderr.Head, result.Report.Applied)
	}
	if !slices.Equal(result.Changes, []string{"modified kept", "added new"}) || read(t, filepath.Join(root, "kept")) != "kept" {
		t.Errorf("changes %v", result.Changes)
	}
	// Paths that the program made inaccessible are opened again, to read and to move them.
	const closing = "mkdir closed .vscode; echo x > closed/.npmrc; chmod 100 closed; echo x > .vscode/tasks.json; chmod 500 .vscode"
	result = asUser(t, root, jailtest.Shell(t, root, "echo x > .envrc; echo y > made; "+closing+"; echo x > .mcp.json"))
	if result.Error != "" || !slices.Equal(result.Report.Quarantined, []string{".envrc", ".vscode", "closed/.npmrc"}) || read(t, filepath.Join(root, ".mcp.json")) != "mcp" {
		t.Errorf("Run: %s, stderr %q, quarantined %v", result.Error, result.Report.Stderr.Head, result.Report.Quarantined)
	}
}
