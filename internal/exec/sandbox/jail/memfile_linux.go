package jail

import (
	"errors"
	"fmt"
	"os"
	"sync"

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

// filters are the system call filters of a machine, by the grants of the runs. Each is made for the
// first run that needs it. It is safe for concurrent use.
type filters struct {
	options seccomp.Options

	mu   sync.Mutex
	made map[seccomp.Grants]*filter
}

// filter is one filter, without and with a listener. table is its content.
type filter struct {
	plain, watched file
	table          seccomp.Table
}

func newFilters(o seccomp.Options) *filters {
	return &filters{options: o, made: map[seccomp.Grants]*filter{}}
}

// with returns the filter with some grants. It belongs to the machine.
func (f *filters) with(g seccomp.Grants) (*filter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.made[g]; one != nil {
		return one, nil
	}
	o := f.options
	o.Grants = g
	one := &filter{table: seccomp.NewTable(o)}
	for to, watch := range map[*file]bool{&one.plain: false, &one.watched: true} {
		o.Watch = watch
		program, err := seccomp.Program(o)
		if err == nil {
			*to, err = share("filter", seccomp.Bytes(program), DataFile)
		}
		if err != nil {
			one.close()
			return nil, err
		}
	}
	f.made[g] = one
	return one, nil
}

func (f *filter) close() { closeAll([]*os.File{f.plain.File, f.watched.File}) }

func (f *filters) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.made {
		one.close()
	}
	clear(f.made)
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
