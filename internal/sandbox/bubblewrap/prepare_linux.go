package bubblewrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/inside"
)

// Where the outer stage attaches the view of a workspace, in a mount namespace
// of its own. The directory exists everywhere and every user may pass it.
const (
	viewDir  = "/run"
	viewName = "workspace"
)

// job is one run with everything it holds. close releases all of it.
type job struct {
	runner *Runner
	spec   sandbox.Spec
	limits sandbox.Limits
	group  *group
	seen   seen

	// child are the descriptors of the first process, by number; parent are
	// the other ends.
	child           []*os.File
	control, status *os.File
	stdout, stderr  *os.File
	// path and argv are of the first process.
	path    string
	argv    []string
	private bool

	argumentsSHA string
	landlock     bool
}

// prepare opens, checks and builds everything that a run needs.
func (r *Runner) prepare(s sandbox.Spec) (*job, error) {
	j := &job{runner: r, spec: s, limits: s.Limits.OrDefault()}
	if err := j.build(); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

func (j *job) build() error {
	w, err := openWorkspace(j.spec.WorkspaceRoot, j.spec.Cwd)
	if err != nil {
		return err
	}
	defer w.dir.Close()
	program, err := j.runner.resolver.OpenExecutable(j.spec.Executable)
	if err != nil {
		return err
	}
	defer program.Close()
	inner, err := j.inner(program, w)
	if err != nil {
		return err
	}
	if err := j.descriptors(); err != nil {
		return fmt.Errorf("preparing the descriptors of a run: %w", err)
	}
	return j.stages(inner, w)
}

func (j *job) readOnly() bool { return j.spec.Workspace != sandbox.Direct }

// inner is the spec of the last stage.
func (j *job) inner(program *os.File, w *workspace) (inside.Inner, error) {
	at, err := visible(j.spec.Executable.Path, j.spec.WorkspaceRoot)
	if err != nil {
		return inside.Inner{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(program.Fd()), &st); err != nil {
		return inside.Inner{}, fmt.Errorf("looking at the program: %w", err)
	}
	i := inside.Inner{
		Exec:      at,
		File:      inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()},
		Argv:      j.spec.Argv,
		Env:       sandbox.Environment(j.spec.Env),
		Workspace: w.identity, Dir: sandbox.WorkspaceMount,
		Rlimits:          j.rlimits(),
		DropCapabilities: true, NoNewPrivs: true,
		Seccomp: j.runner.filter,
	}
	if abi := j.runner.landlock; abi > 0 {
		j.landlock = true
		i.Landlock = &inside.Landlock{ABI: abi, Rules: landlockRules(j.readOnly())}
	}
	return i, nil
}

// visible maps a host path to the one inside.
func visible(program, root string) (string, error) {
	if rest, ok := strings.CutPrefix(program, root+"/"); ok {
		return path.Join(sandbox.WorkspaceMount, rest), nil
	}
	for _, dir := range append([]string{"/usr"}, systemDirs...) {
		if strings.HasPrefix(program, dir+"/") {
			return program, nil
		}
	}
	return "", reason.Errorf(reason.ExecutableDenied, "the program %s lies outside /usr and the workspace, and nothing else is seen in the sandbox", program).
		WithRemedy("Install it below /usr (the distribution's package or /usr/local), or copy it into the workspace.")
}

// descriptors makes the pipes and the control socket. The child's are kept at
// the numbers that palyra-init expects.
func (j *job) descriptors() error {
	j.child = make([]*os.File, inside.ExtraFD)
	stdin, err := j.stdin()
	if err != nil {
		return err
	}
	j.child[0] = stdin
	for _, p := range []struct {
		mine **os.File
		fd   int
	}{{&j.stdout, 1}, {&j.stderr, 2}, {&j.status, inside.StatusFD}} {
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		*p.mine, j.child[p.fd] = read, write
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	j.child[inside.ControlFD] = os.NewFile(uintptr(pair[1]), "control")
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		return err
	}
	j.control = os.NewFile(uintptr(pair[0]), "control")
	for _, file := range generated {
		f, err := dataFile(filepath.Base(file.name), []byte(file.content))
		if err != nil {
			return err
		}
		j.child = append(j.child, f)
	}
	return nil
}

// stdin is a sealed file, so that a program may seek in it and nobody has to
// feed it.
func (j *job) stdin() (*os.File, error) {
	if j.spec.Stdin == nil {
		return os.Open(os.DevNull)
	}
	return dataFile("stdin", j.spec.Stdin)
}

// stages makes the control groups, the view and the specs of both stages, and
// decides what the first process is: bubblewrap itself, when there is nothing
// to do before it.
func (j *job) stages(inner inside.Inner, w *workspace) error {
	r := j.runner
	name := fmt.Sprintf("%s-%d", r.stem, r.runs.Add(1))
	group, err := r.ladder.start(name, j.limits)
	if err != nil {
		return reason.Errorf(reason.SandboxUnavailable, "the limits of the run cannot be set: %w", err)
	}
	j.group = group
	joins, err := group.joins()
	if err != nil {
		return reason.Errorf(reason.SandboxUnavailable, "the limits of the run cannot be set: %w", err)
	}
	outer := inside.Outer{Parent: os.Getpid(), Exec: r.cfg.Bwrap}
	for _, f := range joins {
		outer.Join = append(outer.Join, j.extra(f))
	}
	source := j.spec.WorkspaceRoot
	if r.viewer != nil {
		tree, err := r.viewer.view(w, j.readOnly())
		if err != nil {
			return err
		}
		outer.View = &inside.View{FD: j.extra(tree), Dir: viewDir, Name: viewName}
		outer.UID, outer.GID = r.cfg.UID, r.cfg.GID
		source = path.Join(viewDir, viewName)
		j.private = true
	}
	outer.Hide = j.extras()
	outer.Argv = []string{filepath.Base(r.cfg.Bwrap), "--args", strconv.Itoa(inside.ArgsFD), "--", selfPath(inside.HelperFD), inside.StageInner}
	args := arguments(layout{
		source: source, readOnly: j.readOnly(), cwd: w.cwd,
		tmp: j.limits.Tmp, firstData: inside.ExtraFD,
	})
	spec := inside.Spec{Outer: outer, Inner: inner}
	if r.weaken != nil {
		r.weaken(&spec, &args)
	}
	if len(joins) > 0 || j.private {
		j.path, j.argv = selfPath(inside.HelperFD), []string{helperName, inside.StageOuter}
	} else {
		j.path, j.argv = outer.Exec, outer.Argv
	}
	return j.handOver(spec, args)
}

// handOver puts the specs where the stages look for them.
func (j *job) handOver(spec inside.Spec, args []string) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("writing the spec of a run: %w", err)
	}
	if j.child[inside.SpecFD], err = dataFile("spec", text); err != nil {
		return err
	}
	list := nulTerminated(args)
	j.argumentsSHA = digest(list)
	if j.child[inside.ArgsFD], err = dataFile("arguments", list); err != nil {
		return err
	}
	j.child[inside.HelperFD] = j.runner.helper
	return nil
}

// extra hands one more descriptor to the first process and returns its number.
func (j *job) extra(f *os.File) int {
	j.child = append(j.child, f)
	return len(j.child) - 1
}

// extras are the numbers of those that bubblewrap must not inherit.
func (j *job) extras() []int {
	var fds []int
	for fd := inside.ExtraFD + len(generated); fd < len(j.child); fd++ {
		fds = append(fds, fd)
	}
	return fds
}

// close releases what the run held and reports what could not be cleaned up.
func (j *job) close() error {
	for fd, f := range j.child {
		if f != nil && fd != inside.HelperFD {
			f.Close()
		}
	}
	j.child = nil
	for _, f := range []*os.File{j.control, j.status, j.stdout, j.stderr} {
		if f != nil {
			f.Close()
		}
	}
	j.seen.close()
	if j.group == nil {
		return nil
	}
	j.group.kill()
	return j.group.remove()
}
