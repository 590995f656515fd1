package seatbelt

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
)

// forgingChild is the name of a fake helper. The tests run the whole runner on Linux with a
// fake sandbox-exec, which forbids no operations. The helper under the name ChildCommand is the
// real one. The helper under the name forgingChild reports all attempts as denied, so that
// tests can cover the rest of a run.
const forgingChild = "forging-child"

// brokenTag makes the fake sandbox-exec fail like the real one.
const brokenTag = "broken"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "sandbox-exec" {
		os.Exit(sandboxed(os.Args[1:]))
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case ChildCommand:
			ended(Child())
		case forgingChild:
			ended(child(os.NewFile(wordFD, "word"), os.NewFile(reportFD, "report"), func(tries) denied { return denied{true, true, true, true} }))
		}
	}
	os.Exit(m.Run())
}

func ended(err error) {
	os.Stderr.WriteString(err.Error() + "\n")
	os.Exit(1)
}

// sandboxed parses the arguments like sandbox-exec and executes the program.
func sandboxed(args []string) int {
	if len(args) < 2 || args[0] != "-p" || strings.Contains(args[1], brokenTag) {
		os.Stderr.WriteString("sandbox-exec: profile:1:0: unbound variable\n")
		return 65
	}
	text := args[1]
	for args = args[2:]; len(args) > 1 && args[0] == "-D"; args = args[2:] {
		if name, _, ok := strings.Cut(args[1], "="); !ok || text != openProfile && !strings.Contains(text, `(param "`+name+`")`) {
			return 64
		}
	}
	if text == openProfile {
		args[1] = ChildCommand
	}
	os.Stderr.WriteString(syscall.Exec(args[0], args, os.Environ()).Error())
	return 71
}

// group is the set of processes of one process group.
type group struct{ pgid int }

func followGroup(pid int) (tree, error) { return group{pid}, nil }

func (g group) close() {}

func (g group) look() int {
	entries, _ := os.ReadDir("/proc")
	count := 0
	for _, e := range entries {
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if _, numeric := strconv.Atoi(e.Name()); err != nil || numeric != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[2] == strconv.Itoa(g.pgid) && fields[0] != "Z" {
			count++
		}
	}
	return count
}

func (g group) kill() error {
	gone := must.Wait(func() bool {
		_ = unix.Kill(-g.pgid, unix.SIGKILL)
		return g.look() == 0
	})
	if !gone {
		return fmt.Errorf("%d processes of the group %d outlive SIGKILL", g.look(), g.pgid)
	}
	return nil
}

// newTestRunner returns a runner with one of the helpers.
func newTestRunner(t *testing.T, helper string) *Runner {
	t.Helper()
	self := must.Get(os.Executable())(t)
	exec := filepath.Join(t.TempDir(), "sandbox-exec")
	must.Do(t, os.Symlink(self, exec))
	return must.Get(newRunner(Config{Enabled: true, RunDir: t.TempDir()}, exec, []string{self, helper}, followGroup))(t)
}

// spec returns the spec of a program with a new workspace.
func spec(t *testing.T, argv ...string) sandbox.Spec {
	t.Helper()
	program := must.Get(command.ResolveExecutable(argv[0], command.SearchPath()))(t)
	return sandbox.Spec{Argv: argv, Executable: program.Executable, WorkspaceRoot: t.TempDir(), Workspace: sandbox.Direct}
}

// script returns the spec of a shell script with a new workspace.
func script(t *testing.T, text string) sandbox.Spec {
	t.Helper()
	s := spec(t, "sh", "script")
	must.Do(t, os.WriteFile(filepath.Join(s.WorkspaceRoot, "script"), []byte(text), 0o600))
	return s
}

// run runs s with the forging helper, and verifies that no resource of the run is left.
func run(t *testing.T, s sandbox.Spec) (sandbox.Report, error) {
	t.Helper()
	r := newTestRunner(t, forgingChild)
	ctx, cancel := context.WithTimeout(t.Context(), 2*must.Patience)
	defer cancel()
	report, err := r.Run(ctx, s)
	left, readErr := os.ReadDir(r.cfg.RunDir)
	if readErr != nil || len(left) > 0 {
		t.Errorf("the directory of runs holds %v (%v)", left, readErr)
	}
	return report, err
}
