package jail

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox/inside"
)

// stageSpec returns a spec for the outer stage's mounts of a workspace. Its program does not
// exist.
func stageSpec(workspace inside.Source, overlay *inside.Overlay) inside.Spec {
	return inside.Spec{Outer: inside.Outer{Parent: os.Getpid(), Workspace: workspace, Overlay: overlay, Exec: "/nonexistent", Argv: []string{"none"}}}
}

// startStage starts the outer stage in separate namespaces, because its mounts must not affect
// the host.
func startStage(t *testing.T, m *Machine, spec inside.Spec) *helperRun {
	t.Helper()
	return startHelperAs(t, m, inside.StageOuter, specFile(t, spec), &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	})
}

// The stage mounts only the directories that palyrad opened, and no replacements.
func TestStageRefusesOtherDirectories(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	top := realPath(t, t.TempDir())
	source := func(name string) inside.Source {
		dir := filepath.Join(top, name)
		must.Do(t, os.Mkdir(dir, 0o700))
		return inside.Source{Path: dir, Identity: identityOf(t, dir)}
	}
	work, upper, scratch := source("work"), source("upper"), source("scratch")
	must.Do(t, os.Symlink("work", filepath.Join(top, "link")))
	other := func(s inside.Source) inside.Source { s.Identity.Ino++; return s }
	linked := inside.Source{Path: filepath.Join(top, "link"), Identity: work.Identity}
	for name, spec := range map[string]inside.Spec{
		"workspace":             stageSpec(other(work), nil),
		"reached by a link":     stageSpec(linked, nil),
		"workspace of a copy":   stageSpec(other(work), &inside.Overlay{Upper: upper, Work: scratch}),
		"layer":                 stageSpec(work, &inside.Overlay{Upper: other(upper), Work: scratch}),
		"directory of the copy": stageSpec(work, &inside.Overlay{Upper: upper, Work: other(scratch)}),
	} {
		h := startStage(t, m, spec)
		_, _, err := receive(h.control, 0)
		if code := h.end(); code != 125 || err == nil || !strings.Contains(err.Error(), "the workspace changed") {
			t.Errorf("%s: exit code %d, %v", name, code, err)
		}
	}
	h := startStage(t, m, stageSpec(work, nil)) // control
	report, _, err := receive(h.control, 0)
	if h.end(); err != nil || report.Mounted == nil || *report.Mounted != work.Identity {
		t.Errorf("the right one: mounted %+v, %v", report.Mounted, err)
	}
}

// Pinned paths are inside the workspace, even if a link meanwhile leads out of it.
func TestStagePinsNothingOutside(t *testing.T) {
	t.Parallel()
	m := newTestMachine(t, Config{})
	top := realPath(t, t.TempDir())
	root := filepath.Join(top, "work")
	for _, err := range []error{
		os.Mkdir(root, 0o700), os.WriteFile(filepath.Join(top, "outside"), nil, 0o600), os.WriteFile(filepath.Join(root, "file"), nil, 0o600),
		os.Symlink("..", filepath.Join(root, "link")),
	} {
		must.Do(t, err)
	}
	for path, fine := range map[string]bool{"../outside": false, "link/outside": false, "link": true, "gone": true, "file": true} {
		spec := stageSpec(inside.Source{Path: root, Identity: identityOf(t, root)}, nil)
		spec.Outer.Pins = []inside.Pin{{Path: path, ReadOnly: true}}
		h := startStage(t, m, spec)
		_, _, err := receive(h.control, 0)
		if h.end(); (err == nil) != fine || !fine && !strings.Contains(err.Error(), "pinning "+path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
