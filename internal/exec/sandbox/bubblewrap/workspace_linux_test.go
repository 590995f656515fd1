package bubblewrap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// changesOf returns the changes in a run's copy of the workspace.
func changesOf(t testing.TB, report sandbox.Report) []string {
	t.Helper()
	if report.Layer == nil {
		t.Fatal("the run has no layer")
	}
	set := must.Get(report.Layer.Changes(t.Context()))(t)
	var list []string
	for _, c := range set.Changes {
		list = append(list, string(c.Op())+" "+c.Path)
	}
	return list
}

func copied(s sandbox.Spec) sandbox.Spec {
	s.Workspace = sandbox.CopyOnWrite
	return s
}

func read(t testing.TB, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	return string(text)
}

// A program's changes to its copy are in the layer, and the workspace is unchanged.
func TestCopyOnWrite(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	jailtest.WriteFile(t, filepath.Join(root, "kept"), "kept", 0o600)
	jailtest.WriteFile(t, filepath.Join(root, "gone"), "gone", 0o644)
	jailtest.WriteFile(t, filepath.Join(root, "sealed"), "sealed", 0o444)
	report := jailtest.Run(t, newTestRunner(t), copied(jailtest.Shell(t, root, "echo more >> kept; rm gone; mkdir -p a/b; echo new > a/b/c; chmod u+w sealed; cat kept a/b/c; mkdir .git; echo x > .mcp.json")))
	if got := string(report.Stdout.Head); got != "keptmore\nnew\n" || *report.ExitCode != 0 {
		t.Errorf("%s, stdout %q, stderr %s", jailtest.Ending(report), got, report.Stderr.Head)
	}
	changes := changesOf(t, report)
	for _, want := range []string{"modified kept", "deleted gone", "added a/b/c", "added .mcp.json", "modified sealed"} {
		if !slices.Contains(changes, want) {
			t.Errorf("%q is not among %v", want, changes)
		}
	}
	if read(t, filepath.Join(root, "kept")) != "kept" || read(t, filepath.Join(root, "gone")) != "gone" || exists(filepath.Join(root, "a")) {
		t.Error("the workspace was written to")
	}
	if !slices.Contains(report.Applied, jail.LayerCopy) || report.Isolation.Workspace != "copy_on_write" {
		t.Errorf("applied %v, workspace %s", report.Applied, report.Isolation.Workspace)
	}
	if info := read(t, "/proc/self/mountinfo"); strings.Contains(info, root) {
		t.Errorf("a mount is left on the host:\n%s", info)
	}
}

// The workspace's path on the host is not visible inside.
func TestCopyHidesHostPaths(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	s := copied(jailtest.Shell(t, root, "cat /proc/self/mountinfo /proc/1/mountinfo"))
	report := jailtest.Run(t, newTestRunner(t), s)
	if out := string(report.Stdout.Head); strings.Contains(out, filepath.Base(filepath.Dir(root))) || !strings.Contains(out, " /workspace ") {
		t.Errorf("mounts inside:\n%s", out)
	}
	// Control: a plain mount shows its directory.
	s.Workspace = sandbox.ReadOnly
	report = jailtest.Run(t, newTestRunner(t), s)
	if out := string(report.Stdout.Head); !strings.Contains(out, filepath.Base(filepath.Dir(root))) {
		t.Errorf("the control does not see the host's path:\n%s", out)
	}
}

// FS-04: a hard link in the workspace to a file outside is written only in the copy.
func TestCopyDefeatsHardLinks(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	outside := filepath.Join(filepath.Dir(root), "outside")
	jailtest.WriteFile(t, outside, "outside", 0o644)
	must.Do(t, os.Link(outside, filepath.Join(root, "inside")))
	r := newTestRunner(t)
	jailtest.Output(t, r, copied(jailtest.Shell(t, root, "echo broken > inside")))
	if got := read(t, outside); got != "outside" {
		t.Errorf("the file outside holds %q", got)
	}
	// Control: a program with direct writes changes the file, and the report states that it may
	// write.
	report := jailtest.Run(t, r, jailtest.Shell(t, root, "echo broken > inside"))
	if got := read(t, outside); got != "broken\n" {
		t.Errorf("the control holds %q", got)
	}
	if !slices.ContainsFunc(report.Downgrades, func(d string) bool { return strings.HasPrefix(d, "direct: 1 files") }) {
		t.Errorf("downgrades %v", report.Downgrades)
	}
}

func operandOf(t testing.TB, root, name string) tool.Operand {
	t.Helper()
	return tool.Operand{Path: name, SHA256: jail.Digest([]byte(read(t, filepath.Join(root, name))))}
}

// The program reads the approved bytes, with the original time and mode, even if the file
// changes during the run.
func TestOperandsArePinned(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	name := filepath.Join(root, "script.sh")
	jailtest.WriteFile(t, name, "approved\n", 0o750)
	past := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	must.Do(t, os.Chtimes(name, past, past))
	jailtest.WriteFile(t, filepath.Join(root, "sealed"), "sealed\n", 0o400)
	jailtest.WriteFile(t, filepath.Join(root, "word"), "wait", 0o600)
	r := newTestRunner(t)
	rewrite := func() func(string, []byte) {
		var first sync.Once
		return func(string, []byte) {
			first.Do(func() {
				jailtest.WriteFile(t, name, "rewritten", 0o750)
				jailtest.WriteFile(t, filepath.Join(root, "word"), "go", 0o600)
			})
		}
	}
	s := copied(jailtest.Shell(t, root, "stat -c '%a %y' script.sh; until grep -q go word; do sleep 0.01; done; cat sealed script.sh"))
	s.Operands = []tool.Operand{operandOf(t, root, "script.sh"), operandOf(t, root, "sealed")}
	s.Output = rewrite()
	report := jailtest.Run(t, r, s)
	out := string(report.Stdout.Head)
	if !strings.HasPrefix(out, "750 2001-02-03 04:05:06.000000789") || !strings.HasSuffix(out, "sealed\napproved\n") || len(report.Unpinned) > 0 {
		t.Errorf("stdout %q, stderr %q, unpinned %v", out, report.Stderr.Head, report.Unpinned)
	}
	// Control: a file that is not an operand is read in its current state.
	jailtest.WriteFile(t, name, "approved\n", 0o750)
	jailtest.WriteFile(t, filepath.Join(root, "word"), "wait", 0o600)
	s.Operands, s.Output = nil, rewrite()
	if out := string(jailtest.Run(t, r, s).Stdout.Head); !strings.HasSuffix(out, "rewritten") {
		t.Errorf("the control read %q", out)
	}
}

func TestOperandsThatChanged(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	jailtest.WriteFile(t, filepath.Join(root, "a"), "one", 0o644)
	r := newTestRunner(t)
	s := copied(jailtest.Shell(t, root, "touch ran; echo up"))
	s.Operands = []tool.Operand{operandOf(t, root, "a")}
	jailtest.Output(t, r, s)
	jailtest.WriteFile(t, filepath.Join(root, "a"), "two", 0o644)
	for name, edit := range map[string]func(){
		"other bytes": func() {},
		"gone":        func() { os.Remove(filepath.Join(root, "a")) },
		"a directory": func() { os.Mkdir(filepath.Join(root, "a"), 0o755) },
	} {
		edit()
		if report, err := r.Run(t.Context(), s); reason.Of(err) != reason.BindingMismatch || report.Layer != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A large operand is reported and not kept.
	jailtest.WriteFile(t, filepath.Join(root, "large"), strings.Repeat("x", jail.MaxPinned+1), 0o644)
	s.Operands = []tool.Operand{operandOf(t, root, "large")}
	if report := jailtest.Run(t, r, s); !slices.Equal(report.Unpinned, []string{"large"}) {
		t.Errorf("unpinned %v", report.Unpinned)
	}
}

// A program of the workspace is one of its own operands.
func TestProgramOfTheWorkspaceIsPinned(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	s := copied(withProbe(t, root, "fds"))
	jailtest.Output(t, newTestRunner(t), s)
	s.Executable.SHA256 = jail.Digest([]byte("another"))
	if _, err := newTestRunner(t).Run(t.Context(), s); reason.Of(err) != reason.BindingMismatch {
		t.Errorf("another program: %v", err)
	}
}

// Existing protected paths cannot be changed or moved in workspaces with direct writes, and new
// ones are moved away.
func TestDirect(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	for _, dir := range []string{".git/hooks", "sub/.git/hooks", ".vscode", "deploy"} {
		must.Do(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	jailtest.WriteFile(t, filepath.Join(root, ".git/config"), "config", 0o644)
	jailtest.WriteFile(t, filepath.Join(root, ".git/index"), "index", 0o644)
	jailtest.WriteFile(t, filepath.Join(root, "deploy/run.sh"), "deploy", 0o644)
	r := newTestRunner(t)
	for _, script := range []string{
		"echo x >> .git/config", "echo x > .git/hooks/pre-commit", "mv .git .git2", "mv sub sub2", "rm -rf sub/.git", "echo x > .vscode/tasks.json", "echo x >> deploy/run.sh",
	} {
		s := jailtest.Shell(t, root, script)
		s.Protected = []string{"deploy/*.sh"}
		if report := jailtest.Run(t, r, s); *report.ExitCode == 0 {
			t.Errorf("%q succeeded", script)
		}
	}
	report := jailtest.Run(t, r, jailtest.Shell(t, root, "echo y >> .git/index; echo made > made; mkdir -p new/.git/hooks; echo x > new/.git/hooks/pre-commit; echo x > .mcp.json; ln -s ../canary .envrc"))
	if *report.ExitCode != 0 {
		t.Errorf("%s: %s", jailtest.Ending(report), report.Stderr.Head)
	}
	slices.Sort(report.Quarantined)
	if !slices.Equal(report.Quarantined, []string{".envrc", ".mcp.json", "new/.git"}) {
		t.Errorf("quarantined %v", report.Quarantined)
	}
	if exists(filepath.Join(root, ".mcp.json")) || exists(filepath.Join(root, "new/.git")) || read(t, filepath.Join(root, "made")) != "made\n" || read(t, filepath.Join(root, ".git/index")) != "indexy\n" {
		t.Error("the workspace is not as it should be")
	}
	aside, err := filepath.Glob(filepath.Join(r.cfg.QuarantineDir, "run-*", "*"))
	if err != nil || len(aside) < 2 {
		t.Errorf("put aside: %v, %v", aside, err)
	}
	// Control: without pins the same commands succeed. The omitted copy has no pins.
	weak := newTestRunner(t, jail.LayerCopy)
	for _, script := range []string{"echo x >> .git/config", "echo x > .git/hooks/pre-commit", "mv sub sub2", "mv .git .git2"} {
		jailtest.Output(t, weak, copied(jailtest.Shell(t, root, script)))
	}
}

func TestCaches(t *testing.T) {
	t.Parallel()
	root := jailtest.Workspace(t)
	dir := filepath.Join(filepath.Dir(root), "cache")
	must.Do(t, os.Mkdir(dir, 0o700))
	r := newTestRunner(t)
	for _, mode := range []sandbox.WorkspaceMode{sandbox.ReadOnly, sandbox.CopyOnWrite, sandbox.Direct} {
		s := jailtest.Shell(t, root, "echo $GOCACHE; echo kept >> $GOCACHE/file; cat /cache/go/file | wc -l")
		s.Workspace = mode
		s.Caches = []sandbox.Cache{{Name: "go", Dir: dir, Env: []string{"GOCACHE=/cache/go"}}}
		if out := jailtest.Output(t, r, s); !strings.HasPrefix(out, "/cache/go\n") {
			t.Errorf("%s: %q", mode, out)
		}
	}
	if got := read(t, filepath.Join(dir, "file")); got != "kept\nkept\nkept\n" {
		t.Errorf("the cache holds %q", got)
	}
	// Control: without the request the directory is empty.
	if report := jailtest.Run(t, r, jailtest.Shell(t, root, "ls /cache")); *report.ExitCode == 0 {
		t.Error("a cache is seen that was not asked for")
	}
	s := jailtest.Shell(t, root, "true")
	s.Caches = []sandbox.Cache{{Name: "../x", Dir: dir}}
	if _, err := r.Run(t.Context(), s); reason.Of(err) != reason.InvalidInput {
		t.Errorf("a name that is a path: %v", err)
	}
}
