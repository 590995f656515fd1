package jail

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/workspace/overlay"
)

// InsideID is the user and group id of a program in its user namespace: not 0, so that no program
// behaves as if it were root.
const InsideID = 1000

// Stage collects the mounts of palyra-init in a user and a mount namespace for one sandbox. Begin
// puts it into the plan; until then it holds descriptors that Abandon closes.
type Stage struct {
	machine *Machine
	plan    *Plan
	outer   inside.Outer
	mounts  []*os.File
}

// NewStage returns a Stage without mounts. p must have its workspace, and in Spec.Inner.Dir the
// path of the workspace for the program.
func (m *Machine) NewStage(p *Plan) *Stage {
	return &Stage{machine: m, plan: p, outer: inside.Outer{Parent: os.Getpid()}}
}

// Abandon closes the collected descriptors.
func (s *Stage) Abandon() { closeAll(s.mounts) }

// Plain mounts the workspace itself at inside.Mountpoint. A daemon that is root mounts a view of
// it for the sandbox's user.
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
	view, err := s.machine.views.view(s.plan.Workspace, s.plan.User, readOnly)
	if err != nil {
		return err
	}
	s.mounts = append(s.mounts, view)
	s.outer.Workspace, err = s.within(view, ".")
	return err
}

// CopyOnWrite mounts a new layer, in a directory of the daemon, over the workspace.
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
		return reason.Errorf(reason.SandboxUnavailable, "no directory for the program's changes to its copy of the workspace is configured")
	}
	c := overlay.Config{
		Root: spec.WorkspaceRoot, Name: spec.WorkspaceName, Mount: s.plan.Spec.Inner.Dir, Dir: dir, UID: -1, GID: -1,
		Protected: spec.Protected, SearchPath: append(command.SearchPath(), filepath.SplitList(os.Getenv("PATH"))...),
		MaxFiles: spec.Limits.Files, MaxBytes: spec.Limits.Disk,
	}
	if s.machine.Root() {
		c.UID, c.GID = s.plan.User.UID, s.plan.User.GID
	}
	s.plan.Layer, err = overlay.New(c)
	return err
}

// userLayers passes the layers by path: an ordinary user's descriptors belong to other mounts
// than the stage's, and cannot be used there.
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

// rootLayers creates detached mounts of the layers, because the sandbox's user could not reach
// them by path. The mount of the workspace maps its owner to that user.
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

// Shared returns the path of a directory that is kept between runs. It is the directory's own
// path, which only the daemon can rename. If the daemon is root, it is the path of a view for
// the sandbox's user.
func (s *Stage) Shared(path string) (string, error) {
	dir, err := OpenDirectory(path)
	if err != nil {
		return "", err
	}
	defer dir.File.Close()
	if !s.machine.Root() {
		return path, nil
	}
	view, err := s.machine.views.view(dir, s.plan.User, false)
	if err != nil {
		return "", err
	}
	s.mounts = append(s.mounts, view)
	return inside.MountAt(len(s.mounts) - 1), nil
}

// Shown returns the path of a toolchain directory. If the daemon is not root, it is the
// directory's own path. If the daemon is root, it is the path of a read-only mount, because the
// sandbox's user may not be allowed to enter the directories above. That user is not the owner
// of the toolchain and can read only files that are readable for all.
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

// OnThread performs the mounts of a stage without a user namespace, and returns the path of the
// workspace for the first process of the plan. Example: the workspace is /srv/w, whose files
// belong to user 1000. If palyrad runs as user 1000, it makes no mount, and the first process
// opens /srv/w. If palyrad is root, the thread that starts the first process has a view of
// /srv/w in which the files belong to user 100003. The first process runs as that user.
func (s *Stage) OnThread(readOnly bool) (source string, err error) {
	if !s.machine.Root() {
		s.plan.Spec.Inner.Workspace = s.plan.Workspace.Identity
		return s.plan.Workspace.File.Name(), nil
	}
	view, err := s.machine.views.view(s.plan.Workspace, s.plan.User, readOnly)
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

// CopyOnThread combines CopyOnWrite and OnThread for a daemon that is root.
func (s *Stage) CopyOnThread(spec sandbox.Spec, dir string) (source string, err error) {
	if err := s.newLayer(spec, dir); err != nil {
		return "", err
	}
	return s.OnThread(true)
}

// layering are the capabilities that the kernel requires for operations on an overlay. The
// kernel performs these operations with the credentials of the process that mounted the
// overlay.
var layering = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SYS_ADMIN, unix.CAP_MKNOD,
}

// Then sets the command that follows the stage.
func (s *Stage) Then(path string, argv []string) { s.outer.Exec, s.outer.Argv = path, argv }

// Pin protects paths of a workspace with direct writes from changes.
func (s *Stage) Pin(pins []inside.Pin) { s.outer.Pins = append(s.outer.Pins, pins...) }

// Begin makes palyra-init the first process, in the given stage, in a user and a mount namespace,
// in the namespaces of flags, and with additional capabilities there.
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
		// This drops root's groups as well.
		p.Attr.GidMappingsEnableSetgroups = true
		p.Attr.Credential = &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}
	}
}
