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

// callFiles are the memory files of one call, by descriptor of the helper. The helper inherits them
// before the call arrives; they are empty until then.
type callFiles map[int]*os.File

// newCallFiles creates the files. After an error it may still return some of them.
func newCallFiles() (callFiles, error) {
	files := callFiles{}
	for _, f := range []struct {
		fd   int
		name string
	}{{inside.OrderFD, "order"}, {inside.StdinFD, "stdin"}, {inside.BytesFD, "operands"}, {inside.SecretsFD, "secrets"}} {
		var err error
		if files[f.fd], err = newMemory(f.name, unix.MFD_NOEXEC_SEAL); err != nil {
			return files, err
		}
	}
	return files, nil
}

// fill writes the content of a file and makes it final.
func (c callFiles) fill(fd int, content []byte) error { return fill(c[fd], content) }

// close closes the daemon's descriptors of the files. It may be called again.
func (c callFiles) close() {
	for fd, f := range c {
		f.Close()
		delete(c, fd)
	}
}

// order is an order for the helper of the sandbox that the plan describes.
type order struct {
	machine *Machine
	plan    *Plan
	order   inside.Order
	// filter is nil if the layer seccomp is omitted.
	filter *filter
	files  callFiles
	// unpinned are the paths of operands that are too large to be kept in memory.
	unpinned []string
}

// newOrder checks the program and the operands of a call and fills the files of the call.
func newOrder(m *Machine, p *Plan, files callFiles, w Work) (*order, error) {
	o := &order{machine: m, plan: p, files: files}
	if m.Without(LayerEnvironment) {
		w.Env = append(os.Environ(), w.Env...)
	}
	if p.Proxy != nil {
		w.Env = extend(w.Env, p.Proxy.Env(p.Bundle))
	}
	o.order = inside.Order{Exec: w.Exec, Argv: w.Spec.Argv, Env: w.Env, Cwd: w.Cwd, Rlimits: m.rlimits(p, w.Spec.Limits)}
	if err := o.fill(w); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *order) fill(w Work) (err error) {
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
	o.order.Stdin = w.Spec.Session != nil || w.Spec.Stdin != nil
	if w.Spec.Session == nil && w.Spec.Stdin != nil {
		if err := o.files.fill(inside.StdinFD, w.Spec.Stdin); err != nil {
			return err
		}
	}
	if err := o.secrets(w.Spec); err != nil {
		return err
	}
	if !o.machine.Without(LayerSeccomp) {
		if o.filter, err = o.machine.filters.with(o.plan.Grants); err != nil {
			return err
		}
		o.order.Filter = true
	}
	return o.files.fill(inside.OrderFD, inside.Encode(&o.order))
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
	o.order.SecretDir = sandbox.SecretDir
	return o.files.fill(inside.SecretsFD, values)
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
		if o.plan.private.holds(w.Exec) {
			o.order.File.Dev = 0 // an overlay has a device number of its own
		}
	}
	return nil
}
