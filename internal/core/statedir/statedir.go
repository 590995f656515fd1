// Package statedir defines the paths in the state directory, and locks the directory so that only
// one palyrad at a time uses it.
package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"palyra/internal/core/filelock"
	"palyra/internal/core/reason"
)

// Store returns the path of the embedded store.
func Store(stateDir string) string { return filepath.Join(stateDir, "palyra.db") }

// lockPath returns the path of the file that a daemon locks.
func lockPath(stateDir string) string { return filepath.Join(stateDir, "palyrad.lock") }

// Authority returns the directory of the certificate authority.
func Authority(stateDir string) string { return filepath.Join(stateDir, "ca") }

// Socket returns the path of the local operator's socket.
func Socket(stateDir string) string { return filepath.Join(stateDir, "palyrad.sock") }

// Hooks returns the path of the socket for agents of this user, which authenticate with tokens.
func Hooks(stateDir string) string { return filepath.Join(stateDir, "hooks.sock") }

// Console returns the path of the file with the console's host name on this machine and its
// last origin.
func Console(stateDir string) string { return filepath.Join(stateDir, "console.json") }

// ConsoleCA returns the directory of the console's own CA, if it has one.
func ConsoleCA(stateDir string) string { return filepath.Join(stateDir, "console-ca") }

// Empty returns a directory that stays empty: programs without a workspace see it.
func Empty(stateDir string) string { return filepath.Join(stateDir, "empty") }

// Packages returns the directory of the installed packages of upstream servers.
func Packages(stateDir string) string { return filepath.Join(stateDir, "packages") }

// Upstreams returns the directory for the state of upstream servers' programs. Its content is
// arbitrary and not part of a backup.
func Upstreams(stateDir string) string { return filepath.Join(stateDir, "upstreams") }

// Compiled returns the directory of the compiled code of WebAssembly guests.
func Compiled(stateDir string) string { return filepath.Join(stateDir, "wasm") }

// Skills returns the directory of the packages of installed skills.
func Skills(stateDir string) string { return filepath.Join(stateDir, "skills") }

// Operator returns the path of the local operator's credential bundle.
func Operator(stateDir string) string { return filepath.Join(stateDir, "operator") }

// Restored returns the directory that a restore creates next to the restored state.
func Restored(stateDir string) string { return filepath.Join(stateDir, "restored") }

// Scratch returns the directory in which a backup is prepared.
func Scratch(stateDir string) string { return filepath.Join(stateDir, "backup.tmp") }

// entries are the names in a state directory; those mapped to true belong in a backup. Files that
// palyrad recreates, or that only a running one has, do not.
var entries = map[string]bool{
	"palyra.db": true, "palyra.db-head": true, "ca": true, "operator": true, "vault.json": true, "vault.kek": true, "vault.dpapi": true, "console.json": true, "console-ca": true, "skills": true,

	"palyra.db-wal": false, "palyra.db-shm": false, "palyra.db-reserve": false, "palyrad.lock": false, "palyrad.sock": false, "hooks.sock": false, "empty": false,
	"sandbox": false, "quarantine": false, "undo": false, "cache": false, "packages": false, "upstreams": false, "wasm": false, "restored": false, "backup.tmp": false, "ca.new": false,
}

// Kept reports whether a file below a state directory, named with slashes, belongs in a backup.
// Hidden files are interrupted writes and locks.
func Kept(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return entries[top] && !strings.HasPrefix(path.Base(name), ".")
}

// Known reports whether palyrad uses an entry of that name in a state directory.
func Known(name string) bool {
	_, known := entries[name]
	return known
}

// VaultPin returns the path of the file that records where the vault's key is stored.
func VaultPin(stateDir string) string { return filepath.Join(stateDir, "vault.json") }

// VaultKey returns the path of the vault's key, if it is stored in a file.
func VaultKey(stateDir string) string { return filepath.Join(stateDir, "vault.kek") }

// VaultProtected returns the path of the vault's key, if it is protected by DPAPI.
func VaultProtected(stateDir string) string { return filepath.Join(stateDir, "vault.dpapi") }

// Lock is the exclusive lock of one daemon on a state directory. The kernel releases it when
// the process ends for any reason.
type Lock struct{ file *os.File }

// Take creates the state directory, checks that other users cannot read it, and takes the lock.
func Take(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "making the state directory: %w", err).
			WithRemedy("Set state_dir to a directory that palyrad can create.")
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("looking at the state directory: %w", err)
	}
	if err := CheckPrivate(dir, info); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(lockPath(dir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := filelock.Try(file); err != nil {
		return nil, errors.Join(inUse(dir, file, err), file.Close())
	}
	if err := writePID(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Lock{file: file}, nil
}

func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("writing the lock: %w", err)
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("writing the lock: %w", err)
	}
	return nil
}

// ErrInUse is returned for a state directory that another daemon has locked.
var ErrInUse = errors.New("the state directory is in use")

func inUse(dir string, file *os.File, cause error) error {
	if !errors.Is(cause, filelock.ErrHeld) {
		return fmt.Errorf("locking the state directory: %w", cause)
	}
	return reason.Errorf(reason.ConfigInvalid, "another %s uses %s: %w", lockHolder(file), dir, ErrInUse).
		WithRemedy("Stop it first, or give this one another state_dir.")
}

// Holder returns a description of the palyrad that has locked a state directory, "" for none.
// It changes nothing in the directory.
func Holder(dir string) (who string, err error) {
	who, _, err = holder(dir)
	return who, err
}

// HolderPID returns the process id of the palyrad that has locked a state directory, or 0. The
// lock proves that the process runs, so its id is not reused by another program.
func HolderPID(dir string) (pid int, err error) {
	who, pid, err := holder(dir)
	if err == nil && who != "" && pid == 0 {
		err = reason.Errorf(reason.ConfigInvalid, "a palyrad uses %s, but its process id is unknown", dir).WithRemedy("Try again in a moment.")
	}
	return pid, err
}

func holder(dir string) (who string, pid int, err error) {
	file, err := os.OpenFile(lockPath(dir), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("opening the lock: %w", err)
	}
	defer file.Close() // this also releases the lock
	switch err := filelock.Try(file); {
	case errors.Is(err, filelock.ErrHeld):
		return lockHolder(file), lockPID(file), nil
	case err != nil:
		return "", 0, fmt.Errorf("trying the lock: %w", err)
	}
	return "", 0, nil
}

// lockHolder describes the holder of a lock, by its process id if that is known.
func lockHolder(file *os.File) string {
	if pid := lockPID(file); pid != 0 {
		return fmt.Sprintf("palyrad (process %d)", pid)
	}
	return "palyrad"
}

// lockPID returns the process id in the lock, 0 without one.
func lockPID(file *os.File) int {
	buf := make([]byte, 16)
	n, _ := file.ReadAt(buf, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// Release unlocks the directory immediately: a child that was forked and has not yet executed
// its program still has the file open.
func (l *Lock) Release() error { return errors.Join(filelock.Release(l.file), l.file.Close()) }

// Unwritable adds a remedy to err if a start failed with an error of the operating system, such
// as a full disk. The remedy is to correct that and start again. A failed first start leaves
// nothing to clean up, because files are renamed into place only when they are complete.
func Unwritable(dir string, err error) error {
	var errno syscall.Errno
	if err == nil || reason.Of(err) != reason.Internal || !errors.As(err, &errno) {
		return err
	}
	return reason.Errorf(reason.JournalUnavailable, "%w", err).
		WithRemedy("Check that palyrad may write %s and that its disk is not full, read-only or failing; then start palyrad again.", dir)
}

// CheckPrivate refuses a directory that others may enter.
func CheckPrivate(dir string, info fs.FileInfo) error {
	// Windows has access lists, not permission bits.
	if runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return reason.Errorf(reason.ConfigInvalid, "%s has mode %04o, others may read it", dir, info.Mode().Perm()).
		WithRemedy("Run `chmod 700 %s`.", dir)
}
