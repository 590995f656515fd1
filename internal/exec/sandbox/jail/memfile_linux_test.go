package jail

import (
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

// sealedBut returns a memory file that lacks one seal, or none if missing is 0.
func sealedBut(t *testing.T, missing int, content []byte) *os.File {
	t.Helper()
	f := must.Get(newMemory("test", unix.MFD_NOEXEC_SEAL))(t)
	t.Cleanup(func() { f.Close() })
	must.Get(f.Write(content))(t)
	const all = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	must.Get(unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, all&^missing))(t)
	return f
}

// final reports whether a memory file has all seals, so that it cannot change.
func final(t *testing.T, f *os.File) bool {
	t.Helper()
	seals := must.Get(unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0))(t)
	const all = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	return seals&all == all
}

// separates reports whether the kernel distinguishes executable memory files from data (Linux
// 6.3).
func separates() bool {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if err == nil {
		unix.Close(fd)
	}
	return err != unix.EINVAL
}

// A sealed memory file cannot be changed by its reader.
func TestMemoryFilesAreSealed(t *testing.T) {
	t.Parallel()
	for what, make := range map[string]func(string, []byte) (*os.File, error){"data": DataFile, "a program": ExecutableFile} {
		f := must.Get(make("spec", []byte("text")))(t)
		defer f.Close()
		if _, err := f.Write([]byte("x")); err == nil {
			t.Errorf("%s: a sealed file was written to", what)
		}
		if err := f.Truncate(0); err == nil {
			t.Errorf("%s: a sealed file was cut", what)
		}
		if err := f.Truncate(100); err == nil {
			t.Errorf("%s: a sealed file has grown", what)
		}
		if !final(t, f) {
			t.Errorf("%s: seals are missing", what)
		}
	}
	data := must.Get(DataFile("data", []byte("text")))(t)
	defer data.Close()
	if info, err := data.Stat(); err != nil || separates() && (info.Mode()&0o111 != 0 || data.Chmod(0o700) == nil) {
		t.Errorf("data can be run: %v, %v", info.Mode(), err)
	}
	open := sealedBut(t, unix.F_SEAL_WRITE, []byte("text"))
	if _, err := open.WriteAt([]byte("x"), 0); err != nil || final(t, open) { // control
		t.Errorf("without that seal: %v", err)
	}
}

// TestSealRetriesBusyPages: sealing succeeds after another reference to a page is released.
// Control: a single attempt while the reference exists returns EBUSY.
func TestSealRetriesBusyPages(t *testing.T) {
	t.Parallel()
	f := must.Get(newMemory("test", unix.MFD_NOEXEC_SEAL))(t)
	defer f.Close()
	content := make([]byte, os.Getpagesize())
	must.Get(f.Write(content))(t)
	out, in, err := os.Pipe()
	must.Do(t, err)
	defer out.Close()
	defer in.Close()
	// splice(2) puts a reference to the page into the pipe; reading the pipe releases it.
	var from int64
	must.Get(unix.Splice(int(f.Fd()), &from, int(in.Fd()), nil, len(content), 0))(t)
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); !errors.Is(err, unix.EBUSY) {
		t.Fatalf("sealing with a page held: %v", err)
	}
	sealed := make(chan error, 1)
	go func() { sealed <- seal(f) }()
	must.Get(io.ReadFull(out, content))(t)
	must.Check(t, <-sealed)
	if !final(t, f) {
		t.Error("the file is not sealed")
	}
}

// TestRetryBusyIsBounded: EBUSY is returned after the last attempt, other errors after the
// first.
func TestRetryBusyIsBounded(t *testing.T) {
	t.Parallel()
	for want, attempts := range map[error]int{unix.EBUSY: sealAttempts, unix.EPERM: 1} {
		n := 0
		if err := retryBusy(func() error { n++; return want }); !errors.Is(err, want) || n != attempts {
			t.Errorf("%v after %d attempts", err, n)
		}
	}
}
