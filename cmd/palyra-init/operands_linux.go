package main

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// pin writes the bytes that palyrad has hashed over the workspace's own files, in the copy of
// the workspace, so that later changes outside are not visible to the tool. Owner, mode and
// time are preserved, because make uses them. It returns the positions of the operands that
// this user may not write to. palyrad cannot write them, because the kernel leaves writes to
// the upper directory of a mounted overlay undefined. A prepared sandbox is mounted long before
// the call.
func pin(dir string, operands []inside.Operand, bytes int) (unpinned []int, err error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fail(inside.StepWorkspace, err)
	}
	defer unix.Close(root)
	chunk := make([]byte, 256<<10)
	at := int64(0)
	for i, o := range operands {
		err := overwrite(root, o, bytes, at, chunk)
		switch {
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			unpinned = append(unpinned, i)
		case err != nil:
			return nil, fail(inside.StepOperands, &operandError{o.Path, err})
		}
		at += o.Size
	}
	return unpinned, nil
}

// operandError names the operand. Package fmt would enlarge this program by a tenth.
type operandError struct {
	path string
	err  error
}

func (e *operandError) Error() string { return strconv.Quote(e.path) + ": " + e.err.Error() }

func (e *operandError) Unwrap() error { return e.err }

func overwrite(root int, o inside.Operand, bytes int, at int64, chunk []byte) error {
	fd, err := openOperand(root, o)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for left := o.Size; left > 0; {
		part := chunk[:min(left, int64(len(chunk)))]
		if err := readAt(bytes, part, at); err != nil {
			return err
		}
		n, err := unix.Write(fd, part)
		if err != nil && err != unix.EINTR {
			return err
		}
		if n > 0 {
			left, at = left-int64(n), at+int64(n)
		}
	}
	if err := unix.Fchmod(fd, o.Mode); err != nil {
		return err
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(o.Mtime)}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, descriptor(fd), times, 0); err != nil {
		return err
	}
	return leadsTo(root, o.Path, fd)
}

// openOperand opens a regular file for writing and truncates it, if it has the size and the time
// of the file whose bytes were read. A file without write permission for its owner gets that
// permission for the duration of the write.
func openOperand(root int, o inside.Operand) (int, error) {
	at, st, err := lookAt(root, o.At, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != o.Size || st.Mtim.Nano() != o.Mtime {
		return -1, unix.ESTALE
	}
	const flags = unix.O_WRONLY | unix.O_TRUNC | unix.O_CLOEXEC
	fd, err := unix.Open(descriptor(at), flags, 0)
	if errors.Is(err, unix.EACCES) {
		if err := unix.Chmod(descriptor(at), o.Mode|unix.S_IWUSR); err != nil {
			return -1, err
		}
		fd, err = unix.Open(descriptor(at), flags, 0)
	}
	return fd, err
}

// lookAt opens a name beneath a directory for look-ups only. A name that no longer exists, or is
// being renamed, counts as changed.
func lookAt(root int, name string, resolve uint64) (at int, st unix.Stat_t, err error) {
	at, err = unix.Openat2(root, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | resolve})
	switch err {
	case unix.ENOENT, unix.ELOOP, unix.ENOTDIR, unix.EXDEV, unix.EAGAIN:
		return at, st, unix.ESTALE
	case nil:
		err = unix.Fstat(at, &st)
	}
	return at, st, err
}

// leadsTo verifies that the program's name for a file leads to the written file, because a link
// on the way may have been changed. The overlay caches its look-ups, so that a later change is
// not visible inside.
func leadsTo(root int, name string, fd int) error {
	at, named, err := lookAt(root, name, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var written unix.Stat_t
	if err := unix.Fstat(fd, &written); err != nil {
		return err
	}
	if named.Dev != written.Dev || named.Ino != written.Ino {
		return unix.ESTALE
	}
	return nil
}
