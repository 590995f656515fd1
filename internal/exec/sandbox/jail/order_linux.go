package jail

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
)

// Work contains the parameters of a run that are specific to one call.
type Work struct {
	// Spec is the specification of the call; its limits are complete.
	Spec sandbox.Spec
	// Exec is the path of the program inside, and Cwd its working directory.
	Exec string
	Cwd  string
	// InWorkspace reports that the program is a file of the workspace.
	InWorkspace bool
	// Env is the complete environment.
	Env []string
	// Prepared reports that the sandbox was built before the call.
	Prepared bool
	// Probe, if not nil, runs palyra-init in inside.StageProbe with these arguments instead of
	// the program.
	Probe []string
}

// order is an order for the helper of the sandbox that the plan describes.
type order struct {
	machine *Machine
	plan    *Plan
	order   inside.Order
	// files are the order itself and its descriptors, by number.
	files []*os.File
	// shared is the number of files at the end of the list that belong to the Machine.
	shared int
	// unpinned are the paths of operands that are too large to be kept in memory.
	unpinned []string
}

// newOrder checks the program and the operands of a call and encodes the order.
func newOrder(m *Machine, p *Plan, w Work) (*order, error) {
	o := &order{machine: m, plan: p, files: make([]*os.File, 1)}
	if m.Without(LayerEnvironment) {
		w.Env = append(os.Environ(), w.Env...)
	}
	if p.Proxy != nil {
		w.Env = extend(w.Env, p.Proxy.Env(p.Bundle))
	}
	o.order = inside.Order{Exec: w.Exec, Argv: w.Spec.Argv, Env: w.Env, Cwd: w.Cwd, Rlimits: m.rlimits(p, w.Spec.Limits)}
	if err := o.fill(w); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *order) fill(w Work) error {
	if w.Probe != nil {
		o.order.Self, o.order.Argv = true, append([]string{helperName, inside.StageProbe}, w.Probe...)
	} else if err := o.program(w); err != nil {
		return err
	}
	if o.plan.Layer != nil {
		if err := errors.Join(o.plan.Layer.Begin(), o.pin(w)); err != nil {
			return err
		}
	}
	if w.Spec.Session != nil {
		f, err := duplicate(w.Spec.Session.Stdin)
		if err != nil {
			return err
		}
		o.order.Stdin = o.attach(f)
	} else if w.Spec.Stdin != nil {
		f, err := DataFile("stdin", w.Spec.Stdin)
		if err != nil {
			return err
		}
		o.order.Stdin = o.attach(f)
	}
	if err := o.secrets(w.Spec); err != nil {
		return err
	}
	if !o.machine.Without(LayerSeccomp) {
		o.order.Filter = o.attach(o.machine.files.plain.File)
		o.order.Watched = o.attach(o.machine.files.watched.File)
		o.shared = 2
	}
	var err error
	o.files[0], err = DataFile("order", inside.Encode(&o.order))
	return err
}

// secrets attaches the secrets that the program receives as files.
func (o *order) secrets(s sandbox.Spec) error {
	if !s.HasSecretFiles() {
		return nil
	}
	var values []byte
	for _, i := range s.Injected {
		if i.File != "" {
			o.order.SecretFiles = append(o.order.SecretFiles, inside.SecretFile{Name: i.File, Size: len(i.Value)})
			values = append(values, i.Value...)
		}
	}
	defer clear(values)
	f, err := DataFile("secrets", values)
	if err != nil {
		return err
	}
	o.order.SecretDir, o.order.Secrets = sandbox.SecretDir, o.attach(f)
	return nil
}

// program compares the program's bytes with the approved digest and sets the identity that
// palyra-init must find. For a file on an overlay it sets only the size: palyra-init writes its
// bytes itself, so that inode and times differ.
func (o *order) program(w Work) error {
	f, err := o.machine.resolver.OpenExecutable(w.Spec.Executable)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("opening the program: %w", err)
	}
	o.order.File = inside.Identity{Size: st.Size}
	if !w.InWorkspace || o.plan.Layer == nil {
		o.order.File = inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}
	}
	return nil
}

func (o *order) attach(f *os.File) int {
	o.files = append(o.files, f)
	return len(o.files) - 1
}

func (o *order) close() {
	closeAll(o.files[:len(o.files)-o.shared])
	o.files = nil
}
