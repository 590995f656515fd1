package jail

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox/inside"
)

// Limits of the operands that are kept in memory from the check to the start. Operands beyond
// them are reported as unpinned (sandbox.Report.Unpinned).
const (
	MaxPinned      = 16 << 20 // bytes of one operand
	MaxPinnedTotal = 64 << 20 // bytes of all
)

// pin reads each operand once, through one descriptor, compares the bytes with the approved
// digest, and keeps them for the copy of the workspace. A program in the workspace is an operand
// as well.
func (o *order) pin(w Work) error {
	operands := w.Spec.Operands
	if w.InWorkspace {
		program := tool.Operand{Path: strings.TrimPrefix(w.Exec, o.plan.Spec.Inner.Dir+"/"), SHA256: w.Spec.Executable.SHA256}
		if !slices.Contains(operands, program) {
			operands = append(slices.Clone(operands), program)
		}
	}
	if len(operands) == 0 {
		return nil
	}
	bytes := o.files[inside.BytesFD]
	left := int64(MaxPinnedTotal)
	for _, operand := range operands {
		f, err := openOperand(o.plan.Workspace.File, operand.Path)
		if err != nil {
			return err
		}
		pinned, err := keep(bytes, o.plan.Workspace.File, f, operand, left)
		f.Close()
		switch {
		case err != nil:
			return err
		case pinned == nil:
			o.unpinned = append(o.unpinned, operand.Path)
		default:
			o.order.Operands = append(o.order.Operands, *pinned)
			left -= pinned.Size
		}
	}
	return seal(bytes)
}

// openOperand opens a file of the workspace. It follows links only inside the workspace.
func openOperand(root *os.File, path string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH}
	fd, err := unix.Openat2(int(root.Fd()), path, &how)
	if err != nil {
		return nil, changed(path)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// keep appends an operand's bytes to the memory file and returns its path, size, mode and time
// in the workspace. It returns nil if the operand is too large.
func keep(to, root, f *os.File, operand tool.Operand, left int64) (*inside.Operand, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, changed(operand.Path)
	}
	if st.Size > min(MaxPinned, left) {
		return nil, nil
	}
	h := sha256.New()
	// One byte more than the size detects a file that grows.
	n, err := io.Copy(io.MultiWriter(h, to), io.LimitReader(f, st.Size+1))
	if err != nil || n != st.Size || "sha256:"+hex.EncodeToString(h.Sum(nil)) != operand.SHA256 {
		return nil, changed(operand.Path)
	}
	at, err := location(root, f)
	if err != nil {
		return nil, changed(operand.Path)
	}
	return &inside.Operand{Path: operand.Path, At: at, Size: n, Mode: st.Mode & 0o777, Mtime: st.Mtim.Nano()}, nil
}

// location returns the path of an open file in the workspace, without links. The bytes are
// written to this path, because a link in the call may lead elsewhere by then.
func location(root, f *os.File) (string, error) {
	top, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", root.Fd()))
	if err != nil {
		return "", err
	}
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return "", err
	}
	return filepath.Rel(top, at)
}

func changed(path string) error {
	return reason.Errorf(reason.BindingMismatch, "the file %q changed between the check and the start", path).WithField("operand", path)
}
