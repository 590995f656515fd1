package jail

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/workspace/overlay"
)

// InsideID is the user and group id of a program in its user namespace: not 0, so
// that no program behaves as if it were root.
const InsideID = 1000

// Stage collects what palyra-init mounts in a user and a mount namespace that
// are made for one sandbox. Begin puts it into the plan; until then it holds
// descriptors that Abandon closes.
type Stage struct {
	machine *Machine
	plan    *Plan
	outer   inside.Outer
	mounts  []*os.File
}

// NewStage returns a Stage that mounts nothing yet. p must have its workspace, and in Spec.Inner.Dir the
// path at which the program finds it.
func (m *Machine) NewStage(p *Plan) *Stage {
	return &Stage{machine: m, plan: p, outer: inside.Outer{Parent: os.Getpid()}}
}

// Abandon closes what was collected in vain.
func (s *Stage) Abandon() { closeAll(s.mounts) }

// Plain mounts the workspace as it is, at inside.Mountpoint. A daemon that is root
// shows the sandbox's user a view of it.
func (s *Stage) Plain(readOnly bool) error {
	if readOnly {
		s.outer.Pins = append(s.outer.Pins, inside.Pin{Path: ".", ReadOnly: true})
	}
	if !s.machine.Root() {
		s.outer.Workspace = s.plan.Workspace.Source()
		return nil
	}
	return s.view(readOnly)
}

func (s *Stage) view(readOnly bool) error {
	view, err := s.machine.View(s.plan.Workspace, s.plan.User, readOnly)
	if err != nil {
		return err
	}
	s.mounts = append(s.mounts, view)
	s.outer.Workspace, err = s.within(view, ".")
	return err
}

// CopyOnWrite puts a fresh layer, in a directory of the daemon's, over the
// workspace.
func (s *Stage) CopyOnWrite(spec sandbox.Spec, dir string) error {
	if err := s.newLayer(spec, dir); err != nil {
		return err
	}
	s.outer.Overlay = &inside.Overlay{}
	if s.machine.Root() {
		return s.rootLayers()
	}
	return s.userLayers()
}

func (s *Stage) newLayer(spec sandbox.Spec, dir string) (err error) {
	if dir == "" {
		return reason.Errorf(reason.SandboxUnavailable, "there is no directory for what a program writes to its copy of the workspace")
	}
	c := overlay.Config{
		Root: spec.WorkspaceRoot, Name: spec.WorkspaceName, Mount: s.plan.Spec.Inner.Dir, Dir: dir, UID: -1, GID: -1,
		Protected: spec.Protected, SearchPath: append(sandbox.SearchPath(), filepath.SplitList(os.Getenv("PATH"))...),
		MaxFiles: spec.Limits.Files, MaxBytes: spec.Limits.Disk,
	}
	if s.machine.Root() {
		c.UID, c.GID = s.plan.User.UID, s.plan.User.GID
	}
	s.plan.Layer, err = overlay.New(c)
	return err
}

// userLayers name the layers by path: an ordinary user's descriptors are of
// other mounts than the stage's, and are of no use there.
func (s *Stage) userLayers() error {
	s.outer.Workspace = s.plan.Workspace.Source()
	for _, l := range []struct {
		f  *os.File
		to *inside.Source
	}{{s.plan.Layer.Upper(), &s.outer.Overlay.Upper}, {s.plan.Layer.Work(), &s.outer.Overlay.Work}} {
		dir, err := OpenDirectory(l.f.Name())
		if err != nil {
			return err
		}
		*l.to = dir.Source()
		dir.File.Close()
	}
	return nil
}

// rootLayers make detached mounts of the layers: the sandbox's user could not
// reach them by path. The workspace's maps its owner to that user.
func (s *Stage) rootLayers() error {
	if err := s.view(true); err != nil {
		return err
	}
	upper, work := s.plan.Layer.Upper().Name(), s.plan.Layer.Work().Name()
	dir, err := OpenDirectory(filepath.Dir(upper))
	if err != nil {
		return err
	}
	defer dir.File.Close()
	layer, err := Detached(dir)
	if err != nil {
		return err
	}
	s.mounts = append(s.mounts, layer)
	if s.outer.Overlay.Upper, err = s.within(layer, filepath.Base(upper)); err != nil {
		return err
	}
	s.outer.Overlay.Work, err = s.within(layer, filepath.Base(work))
	return err
}

// within opens a directory of a detached mount for the stage.
func (s *Stage) within(mount *os.File, name string) (inside.Source, error) {
	dir, err := OpenBelow(mount, name)
	if err != nil {
		return inside.Source{}, err
	}
	fd := s.plan.Extra(dir.File)
	s.outer.Hide = append(s.outer.Hide, fd)
	return inside.Source{FD: fd, Identity: dir.Identity}, nil
}

// Shared returns where a directory that is kept between runs is found: at its
// own path, which only the daemon can rename, or, when the daemon is root, at
// that of a view for the sandbox's user.
func (s *Stage) Shared(path string) (string, error) {
	dir, err := OpenDirectory(path)
	if err != nil {
		return "", err
	}
	defer dir.File.Close()
	if !s.machine.Root() {
		return path, nil
	}
	view, err := s.machine.View(dir, s.plan.User, false)
	if err != nil {
		return "", err
	}
	s.mounts = append(s.mounts, view)
	return inside.MountAt(len(s.mounts) - 1), nil
}

// Shown returns where a directory of a toolchain is found: at its own path, or, when
// the daemon is root, at that of a read-only mount of it, since the sandbox's user
// may not be allowed to pass the directories above. That user is none of the
// toolchain's: he sees what everybody may see.
func (s *Stage) Shown(path string) (string, error) {
	dir, err := OpenDirectory(path)
	if err != nil {
		return "", err
	}
	defer dir.File.Close()
	if !s.machine.Root() {
		return path, nil
	}
	tree, err := detach(dir, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if err != nil {
		return "", err
	}
	s.mounts = append(s.mounts, tree)
	return inside.MountAt(len(s.mounts) - 1), nil
}

// OnThread does what a stage would do where that takes no user namespace, and
// returns where the first process of the plan finds the workspace. Example: the
// workspace is /srv/w, whose files belong to user 1000. A palyrad of user 1000
// mounts nothing over it, and the first process finds it at /srv/w. A palyrad
// that is root gives the thread that starts the first process a view of /srv/w
// in which the files belong to user 100003, and starts it there as that user.
func (s *Stage) OnThread(readOnly bool) (source string, err error) {
	if !s.machine.Root() {
		s.plan.Spec.Inner.Workspace = s.plan.Workspace.Identity
		return s.plan.Workspace.File.Name(), nil
	}
	view, err := s.machine.View(s.plan.Workspace, s.plan.User, readOnly)
	if err != nil {
		return "", err
	}
	s.plan.Mounts, s.mounts = append(s.mounts, view), nil
	s.plan.Attr.Credential = &syscall.Credential{Uid: uint32(s.plan.User.UID), Gid: uint32(s.plan.User.GID)}
	if s.plan.Layer != nil {
		return inside.Mountpoint, nil
	}
	s.plan.Spec.Inner.Workspace = s.plan.Workspace.Identity
	return inside.MountAt(len(s.plan.Mounts) - 1), nil
}

// CopyOnThread is CopyOnWrite and OnThread for a daemon that is root.
func (s *Stage) CopyOnThread(spec sandbox.Spec, dir string) (source string, err error) {
	if err := s.newLayer(spec, dir); err != nil {
		return "", err
	}
	return s.OnThread(true)
}

// layering are the capabilities for which the kernel asks who works on an
// overlay: it does so with the powers of who mounted it.
var layering = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SYS_ADMIN, unix.CAP_MKNOD,
}

// Then says what follows the stage.
func (s *Stage) Then(path string, argv []string) { s.outer.Exec, s.outer.Argv = path, argv }

// Pin keeps paths of a workspace that is written to directly as they are.
func (s *Stage) Pin(pins []inside.Pin) { s.outer.Pins = append(s.outer.Pins, pins...) }

// Begin makes palyra-init the first process, in the given stage, in a user and
// a mount namespace, in those of flags, and with further capabilities there.
func (s *Stage) Begin(stage string, flags uintptr, capabilities ...uintptr) {
	for _, f := range s.mounts {
		s.outer.Mounts = append(s.outer.Mounts, s.plan.Extra(f))
	}
	s.mounts = nil
	s.outer.Hide = append(s.outer.Hide, s.outer.Mounts...)
	p := s.plan
	id := InsideID
	if s.machine.Without(LayerUID) {
		id = 0
	}
	p.Argv, p.Staged, p.Spec.Outer, p.ID = []string{helperName, stage}, true, s.outer, id
	p.Attr = syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: id, HostID: p.User.UID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: id, HostID: p.User.GID, Size: 1}},
		AmbientCaps: append(capabilities, layering...),
	}
	if s.machine.Root() {
		// Leaves root's groups behind, too.
		p.Attr.GidMappingsEnableSetgroups = true
		p.Attr.Credential = &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}
	}
}
