package bubblewrap

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memFile returns a sealed memory file with the given bytes, at its start. It
// has no name in any file system and nobody can change it.
func memFile(name string, content []byte, flags int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
	if err == unix.EINVAL && flags != 0 {
		// MFD_EXEC and MFD_NOEXEC_SEAL are of Linux 6.3.
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("making a memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := fillAndSeal(f, content); err != nil {
		f.Close()
		return nil, fmt.Errorf("filling a memory file: %w", err)
	}
	return f, nil
}

func fillAndSeal(f *os.File, content []byte) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	if _, err := f.Seek(0, 0); err != nil {
		return err
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	return err
}

// executableFile is memFile for a program.
func executableFile(name string, content []byte) (*os.File, error) {
	return memFile(name, content, unix.MFD_EXEC)
}

// dataFile is memFile for bytes that must never run.
func dataFile(name string, content []byte) (*os.File, error) {
	return memFile(name, content, unix.MFD_NOEXEC_SEAL)
}
