package jail

import (
	"errors"
	"os"
	"syscall"

	"palyra/internal/egress/proxy"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/seccomp"
	"palyra/internal/exec/workspace/overlay"
)

// Plan describes one sandbox. Starting it transfers the ownership of its resources to the Cell,
// which closes them.
type Plan struct {
	// Path and Argv are the command of the first process; Path "" is palyra-init.
	Path string
	Argv []string
	// Env is the first process's environment; a program does not inherit it.
	Env []string
	// Attr contains the namespaces and the user of the first process.
	Attr syscall.SysProcAttr
	// Mounts are detached mounts that the first process finds attached at inside.MountAt of their
	// position, in a separate mount namespace. The last mount is the workspace. If no outer stage
	// runs, Layer is mounted over the workspace at inside.Mountpoint. Only a daemon that is root
	// may use Mounts.
	Mounts []*os.File
	// Spec is the input of palyra-init; Staged reports that the outer stage runs.
	Spec   inside.Spec
	Staged bool
	// Filters is the number of system call filters that are installed before the filter of
	// palyra-init, in addition to the daemon's own.
	Filters int
	// Arguments are the arguments of bubblewrap, nil for another backend. With arguments,
	// bubblewrap reports the sandbox's first process on inside.StatusFD. Without arguments, the
	// first process of the plan is the sandbox's first process.
	Arguments []string
	// Stdin is the standard input of a session, nil for a call. It belongs to the session.
	Stdin *os.File
	// Files are the descriptors, starting at inside.ExtraFD.
	Files []*os.File

	// User is the user of the sandbox outside, and ID its user inside; 0 means User.
	User User
	ID   int
	// Limits are complete. Limits of a control group and of temporary file systems apply from the
	// start.
	Limits    sandbox.Limits
	Workspace *Directory
	Mode      sandbox.WorkspaceMode
	// Layer contains the program's writes to its copy of the workspace; it may be nil.
	Layer   *overlay.Layer
	private private
	// Proxy carries the connections to allowed hosts. It is nil if the program may reach no hosts
	// or all hosts. Bundle is the path of its Bundle inside, "" for none.
	Proxy  *proxy.Proxy
	Bundle string
	// Grants are the groups of system calls that the layers of the plan contain.
	Grants seccomp.Grants
	// Root are the entries of the root directory inside, sorted.
	Root []string
	// Requested are the layers to prove. Excused maps layers that this host may lack to the
	// reason.
	Requested []string
	Excused   map[string]string

	// Backend is the mechanism and its version, BackendSHA the digest of its program.
	Backend    string
	BackendSHA string
	Tier       sandbox.Tier
	Rung       sandbox.Isolation
}

// NewPlan returns a Plan with a separate user.
func (m *Machine) NewPlan() (*Plan, error) {
	user, err := m.users.take()
	if err != nil {
		return nil, err
	}
	return &Plan{User: user, Excused: map[string]string{}}, nil
}

// ownUsers reports whether the sandbox has its own user namespace.
func (p *Plan) ownUsers() bool {
	return p.Attr.Cloneflags&syscall.CLONE_NEWUSER != 0 || p.Arguments != nil
}

func (p *Plan) mode() sandbox.WorkspaceMode {
	if p.Mode == "" {
		return sandbox.ReadOnly
	}
	return p.Mode
}

// Extra adds a descriptor for the first process and returns its number.
func (p *Plan) Extra(f *os.File) int {
	p.Files = append(p.Files, f)
	return inside.ExtraFD + len(p.Files) - 1
}

// Discard releases the resources of a Plan that was never started.
func (m *Machine) Discard(p *Plan) error {
	defer m.users.give(p.User)
	return p.close()
}

func (p *Plan) close() error {
	closeAll(p.Files)
	closeAll(p.Mounts)
	p.Files, p.Mounts = nil, nil
	var err error
	if p.Workspace != nil {
		err = p.Workspace.Close()
		p.Workspace = nil
	}
	err = errors.Join(err, p.Layer.Close())
	p.Layer = nil
	if p.Proxy != nil {
		p.Proxy.Close()
		p.Proxy = nil
	}
	return err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
