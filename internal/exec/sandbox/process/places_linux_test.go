package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
	"palyra/internal/exec/sandbox/origin"
)

func TestWorkspaceModes(t *testing.T) {
	t.Parallel()
	script := "echo new > made; echo more >> old; cat old"
	for _, c := range []struct {
		mode            sandbox.WorkspaceMode
		reaches, within bool
	}{
		{sandbox.ReadOnly, false, false}, {"", false, false}, {sandbox.Direct, true, true}, {sandbox.CopyOnWrite, false, true},
	} {
		for _, rung := range rungs {
			t.Run(string(c.mode)+"/"+rung.name, func(t *testing.T) {
				root := openWorkspace(t)
				jailtest.WriteFile(t, filepath.Join(root, "old"), "old\n", 0o666)
				spec := jailtest.Shell(t, root, script)
				spec.Workspace = c.mode
				r := rung.make(t)
				if c.mode == sandbox.CopyOnWrite && r.rung == sandbox.Landlocked {
					if _, err := r.Run(t.Context(), spec); reason.Of(err) != reason.SandboxUnavailable {
						t.Errorf("got %v", err)
					}
					return
				}
				report := jailtest.Run(t, r, spec)
				if got := strings.Contains(string(report.Stdout.Head), "more"); got != c.within {
					t.Errorf("inside: %q", report.Stdout.Head)
				}
				text, err := os.ReadFile(filepath.Join(root, "old"))
				_, missing := os.Stat(filepath.Join(root, "made"))
				if err != nil || strings.Contains(string(text), "more") != c.reaches || (missing == nil) != c.reaches {
					t.Errorf("outside: %q, %v, %v", text, err, missing)
				}
				if (report.Layer != nil) != (c.mode == sandbox.CopyOnWrite) {
					t.Errorf("the layer is %v", report.Layer)
				}
			})
		}
	}
}

// The owner's private files are visible through a view, and new files of the program belong to
// the owner.
func TestOwnerOfTheWorkspace(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("an ordinary user owns what it runs; see TestOrdinaryUser")
		return
	}
	root := jailtest.Workspace(t)
	jailtest.WriteFile(t, filepath.Join(root, "private"), "mine", 0o600)
	jailtest.GiveAway(t, root)
	if got := jailtest.Output(t, newTestRunner(t), jailtest.Shell(t, root, "cat private; echo x > made")); got != "mine" {
		t.Errorf("got %q", got)
	}
	info, err := os.Stat(filepath.Join(root, "made"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != jailtest.User {
		t.Errorf("%v, %v", info, err)
	}
}

// Not parallel: it searches for the directories of every run of the process.
func TestDirectoriesOfTheRun(t *testing.T) {
	script := "cd $HOME && echo x > a && cd $TMPDIR && echo y > b && cat $HOME/a b && [ $HOME != $TMPDIR ] && pwd"
	for _, rung := range rungs {
		t.Run(rung.name, func(t *testing.T) {
			r := rung.make(t)
			got := jailtest.Output(t, r, jailtest.Shell(t, openWorkspace(t), script))
			if !strings.HasPrefix(got, "x\ny\n") {
				t.Errorf("got %q", got)
			}
			if left := scratches(t, origin.Mark()); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if rung.name == "user_namespaces" && !strings.HasSuffix(got, inside.Tmp+"\n") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// scratches returns the leftover directories of a daemon's runs.
func scratches(t *testing.T, mark string) []string {
	t.Helper()
	return must.Get(filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+mark+"*")))(t)
}

// A cache is kept between runs, at any path inside.
func TestCaches(t *testing.T) {
	t.Parallel()
	root, cache := jailtest.Workspace(t), jailtest.Workspace(t)
	spec := jailtest.Shell(t, root, `cat $TOOLCACHE/kept 2>/dev/null; echo kept > $TOOLCACHE/kept; [ $EMPTY = a/cache/other ]`)
	spec.Env = []string{"EMPTY=a/cache/other"}
	spec.Caches = []sandbox.Cache{{Name: "tool", Dir: cache, Env: []string{"TOOLCACHE=" + sandbox.CacheMount + "/tool", "EMPTY=not mine"}}}
	r := newTestRunner(t)
	if first, second := jailtest.Output(t, r, spec), jailtest.Output(t, r, spec); first != "" || second != "kept\n" {
		t.Errorf("got %q and %q", first, second)
	}
	result := asOrdinary(t, errand{Spec: spec, LayerDir: jailtest.Dir(t), Alone: true, Without: []string{jail.LayerGroup}})
	if os.Geteuid() == 0 {
		jailtest.GiveAway(t, cache)
		result = asOrdinary(t, errand{Spec: spec, LayerDir: jailtest.Dir(t), Alone: true, Without: []string{jail.LayerGroup}})
	}
	if string(result.Report.Stdout.Head) != "kept\n" {
		t.Errorf("got %q, %s, %s", result.Report.Stdout.Head, result.Report.Stderr.Head, result.Error)
	}
	newAlone := newAloneRunner(t)
	if newAlone.machine.Root() {
		spec.WorkspaceRoot = openWorkspace(t)
		spec.Argv[2] = "[ -z $TOOLCACHE ]"
		jailtest.Output(t, newAlone, spec)
	}
}

// A program of the workspace runs from its copy, with the approved bytes.
func TestProgramOfTheWorkspace(t *testing.T) {
	t.Parallel()
	for _, mode := range []sandbox.WorkspaceMode{sandbox.ReadOnly, sandbox.Direct, sandbox.CopyOnWrite} {
		root := jailtest.Workspace(t)
		jailtest.WriteFile(t, filepath.Join(root, "tool"), "#!/bin/sh\necho here\n", 0o755)
		spec := jailtest.Spec(t, root, "./tool")
		spec.Workspace = mode
		r := newTestRunner(t)
		if got := jailtest.Output(t, r, spec); got != "here\n" {
			t.Errorf("%s: got %q", mode, got)
		}
		jailtest.WriteFile(t, filepath.Join(root, "tool"), "#!/bin/sh\necho there\n", 0o755)
		if _, err := r.Run(t.Context(), spec); reason.Of(err) != reason.BindingMismatch {
			t.Errorf("%s: got %v", mode, err)
		}
	}
}

// A direct run with mounts cannot change protected files. New protected files are moved away on
// either rung.
func TestProtectedFilesOfDirectRuns(t *testing.T) {
	t.Parallel()
	for _, rung := range rungs {
		root := openWorkspace(t)
		jailtest.WriteFile(t, filepath.Join(root, ".envrc"), "old", 0o666)
		report := jailtest.Run(t, rung.make(t), jailtest.Shell(t, root, "echo new > .envrc; echo evil > .mcp.json; echo fine > made; true"))
		text, err := os.ReadFile(filepath.Join(root, ".envrc"))
		if err != nil || (string(text) == "old") != (report.Rung == sandbox.UserNamespaces) {
			t.Errorf("%s: %q, %v", rung.name, text, err)
		}
		if told := strings.Contains(strings.Join(report.Downgrades, "\n"), "direct: without separate mounts"); told != (report.Rung == sandbox.Landlocked) {
			t.Errorf("%s: the downgrades are %q", rung.name, report.Downgrades)
		}
		if !slices.Equal(report.Quarantined, []string{".mcp.json"}) {
			t.Errorf("%s: put aside: %q", rung.name, report.Quarantined)
		}
		if _, err := os.Stat(filepath.Join(root, "made")); err != nil {
			t.Error(err)
		}
	}
}

// Common developer tools work with their granted access, and none of their calls is reported as
// a violation.
func TestDeveloperToolsWork(t *testing.T) {
	t.Parallel()
	scripts := map[string]string{
		"git":    "git init -q r && cd r && echo x > f && git add f && git -c user.name=a -c user.email=a@b commit -qm first && git status --short && git log --oneline | wc -l",
		"gcc":    "echo 'int main(void){return 0;}' > a.c && gcc -o a a.c && ./a && echo 1",
		"python": "python3 -c 'import multiprocessing,tempfile,getpass,socket; socket.getaddrinfo(\"localhost\",80); tempfile.mkdtemp(); print(1)'",
	}
	for name, script := range scripts {
		for _, rung := range rungs {
			t.Run(name+"/"+rung.name, func(t *testing.T) {
				report := jailtest.Run(t, rung.make(t), jailtest.Shell(t, openWorkspace(t), script))
				if string(report.Stdout.Head) != "1\n" {
					t.Errorf("got %q, %s", report.Stdout.Head, report.Stderr.Head)
				}
				if len(report.Violations) > 0 {
					t.Errorf("harmless calls are reported: %+v", report.Violations)
				}
			})
		}
	}
}

// TestSweepersOfOthers: a directory of another user stays, unless palyrad is root.
func TestSweepersOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "run"), 0o700))
	e := must.Get(os.ReadDir(dir))(t)[0]
	self := os.Geteuid()
	for user, want := range map[int]bool{self: true, self + 1: false, 0: true} {
		if got := mayRemove(e, user); got != want {
			t.Errorf("user %d removes it: %t, want %t", user, got, want)
		}
	}
}
