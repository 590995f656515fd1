package jail

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/seccomp"
)

// sharedFiles are the memory files that all sandboxes of a machine share.
type sharedFiles struct {
	helper file
	// outer is the filter for processes until the final filter is installed.
	outer file
}

// file is a memory file that sandboxes share, and its digest.
type file struct {
	*os.File
	sha string
}

// newSharedFiles creates the files. After an error it may still return some of them, which must
// be closed.
func newSharedFiles(helper []byte) (s sharedFiles, err error) {
	program, err := seccomp.Outer()
	if err != nil {
		return s, err
	}
	if s.outer, err = share("outer filter", seccomp.Bytes(program), DataFile); err != nil {
		return s, err
	}
	s.helper, err = share(helperName, helper, ExecutableFile)
	return s, err
}

func share(name string, content []byte, as func(string, []byte) (*os.File, error)) (file, error) {
	f, err := as(name, content)
	return file{f, Digest(content)}, err
}

// ExecutableFile returns a sealed memory file with a program, with the offset at 0. It has no
// name in any file system and cannot be changed.
func ExecutableFile(name string, content []byte) (*os.File, error) {
	return memFile(name, content, unix.MFD_EXEC)
}

// DataFile is like ExecutableFile, for bytes that must never run.
func DataFile(name string, content []byte) (*os.File, error) {
	return memFile(name, content, unix.MFD_NOEXEC_SEAL)
}

func memFile(name string, content []byte, flags int) (*os.File, error) {
	f, err := newMemory(name, flags)
	if err != nil {
		return nil, err
	}
	if err := fill(f, content); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// fill writes the content of a memory file and seals it.
func fill(f *os.File, content []byte) error {
	if _, err := f.Write(content); err != nil {
		return fmt.Errorf("filling a memory file: %w", err)
	}
	return seal(f)
}

// newMemory returns an empty memory file that can be sealed.
func newMemory(name string, flags int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
	if err == unix.EINVAL {
		// MFD_EXEC and MFD_NOEXEC_SEAL exist since Linux 6.3.
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("creating a memory file: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// seal rewinds a memory file and makes its bytes final.
func seal(f *os.File) error {
	if _, err := f.Seek(0, 0); err != nil {
		return err
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	return retryBusy(func() error {
		_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
		if err != nil {
			return fmt.Errorf("sealing a memory file: %w", err)
		}
		return nil
	})
}

// sealAttempts is the maximum number of attempts to seal. The kernel waits 75 ms in each.
const sealAttempts = 40

// retryBusy retries seal while it returns EBUSY. The kernel returns EBUSY while a page of the
// file has another reference, for example during memory reclaim (memfd_wait_for_pins in
// mm/memfd.c).
func retryBusy(seal func() error) (err error) {
	for range sealAttempts {
		if err = seal(); !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return err
}
