package jail

import (
	"errors"
	"os"
	"syscall"

	"palyra/internal/egress/proxy"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/workspace/overlay"
)

// Plan describes one sandbox. Whoever starts it gives up what the Plan holds:
// the Cell closes it.
type Plan struct {
	// Path and Argv are of the first process; Path "" is palyra-init.
	Path string
	Argv []string
	// Env is the first process's environment; a program gets none of it.
	Env []string
	// Attr says which namespaces and user it starts in.
	Attr syscall.SysProcAttr
	// Mounts are detached mounts that the first process finds attached at
	// inside.MountAt of their position, in mounts of its own. The last one
	// is the workspace, over which the layer, if there is one and no outer
	// stage mounts it, is mounted at inside.Mountpoint. The daemon must be root.
	Mounts []*os.File
	// Spec is what palyra-init reads; Staged says that the outer stage runs.
	Spec   inside.Spec
	Staged bool
	// Filters is how many system call filters are in force before
	// palyra-init's, beside the daemon's own.
	Filters int
	// Arguments are bubblewrap's, nil for another backend. Then the first
	// process tells on inside.StatusFD which process is the sandbox's first;
	// otherwise it is that itself.
	Arguments []string
	// Files are the descriptors from inside.ExtraFD on.
	Files []*os.File

	// User is who the sandbox is outside, ID who it is inside; 0 is the same.
	User User
	ID   int
	// Limits are complete. Those of a control group and of temporary file
	// systems hold from the start.
	Limits    sandbox.Limits
	Workspace *Directory
	Mode      sandbox.WorkspaceMode
	// Layer is what a program writes to its copy of the workspace, or nil.
	Layer *overlay.Layer
	// Proxy carries what the program may reach, nil where that is nothing or
	// everything. Bundle is where its Bundle is found inside, "" for nowhere.
	Proxy  *proxy.Proxy
	Bundle string
	// Root are the entries of the root directory inside, sorted.
	Root []string
	// Requested are the layers that have to be proved. Excused maps those
	// that this host may lack to the reason.
	Requested []string
	Excused   map[string]string

	// Backend is the mechanism and its version, BackendSHA the digest of its
	// program.
	Backend    string
	BackendSHA string
	Tier       sandbox.Tier
	Rung       sandbox.Isolation
}

// NewPlan returns a Plan with a user of its own.
func (m *Machine) NewPlan() (*Plan, error) {
	user, err := m.users.take()
	if err != nil {
		return nil, err
	}
	return &Plan{User: user, Excused: map[string]string{}}, nil
}

// Extra adds a descriptor for the first process and returns its number.
func (p *Plan) Extra(f *os.File) int {
	p.Files = append(p.Files, f)
	return inside.ExtraFD + len(p.Files) - 1
}

// Discard releases what a Plan holds that was never started.
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
	if p.Layer != nil {
		err = errors.Join(err, p.Layer.Close())
		p.Layer = nil
	}
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
