package tpmtest

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
)

// TPM is a TPM in software, with a state of its own.
type TPM struct {
	// Device is the socket that it listens on.
	Device string
	dir    string
	// password is the owner hierarchy's.
	password string
	cmd      *exec.Cmd
	ended    chan struct{}
}

// Start makes a TPM and starts it. It ends with the test.
func Start(t testing.TB) *TPM {
	t.Helper()
	// A directory of its own: the name of a socket has at most 107 bytes.
	dir := must.Get(os.MkdirTemp("", "tpm"))(t)
	t.Cleanup(func() { must.Check(t, os.RemoveAll(dir)) })
	e := &TPM{Device: filepath.Join(dir, "socket"), dir: dir}
	e.Boot(t)
	t.Cleanup(e.Halt)
	return e
}

// Boot starts a TPM that was halted, with what it had kept.
func (e *TPM) Boot(t testing.TB) {
	t.Helper()
	needs.Programs(t, "swtpm")
	program := must.Get(exec.LookPath("swtpm"))(t)
	// It writes which process it is once it listens; a pipe makes that something to
	// wait for.
	pid := filepath.Join(e.dir, "pid")
	must.Do(t, syscall.Mkfifo(pid, 0o600))
	defer os.Remove(pid)
	ready := must.Get(os.OpenFile(pid, os.O_RDWR|syscall.O_NONBLOCK, 0))(t)
	defer ready.Close()
	e.cmd = exec.Command(program, "socket", "--tpm2", "--tpmstate", "dir="+e.dir,
		"--server", "type=unixio,disconnect,path="+e.Device, "--pid", "file="+pid, "--flags", "not-need-init,startup-clear")
	e.cmd.Stderr = os.Stderr
	must.Do(t, e.cmd.Start())
	e.ended = make(chan struct{})
	go func() {
		defer close(e.ended)
		_ = e.cmd.Wait()
		_ = ready.Close() // ends the wait for a TPM that does not start
	}()
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatalf("swtpm did not start: %v", err)
	}
}

// Halt ends it, as if the machine had no TPM any more.
func (e *TPM) Halt() {
	if e.cmd == nil {
		return
	}
	_ = e.cmd.Process.Kill()
	<-e.ended
	_ = os.Remove(e.Device)
	e.cmd = nil
}

// Signal sends its process a signal: SIGSTOP makes it hang.
func (e *TPM) Signal(t testing.TB, s os.Signal) {
	t.Helper()
	must.Do(t, e.cmd.Process.Signal(s))
}

// Clear makes it forget all keys, as the firmware's settings can.
func (e *TPM) Clear(t testing.TB) {
	t.Helper()
	dev := must.Get(linuxudstpm.Open(e.Device))(t)
	_, err := tpm2.Clear{AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHLockout, Auth: tpm2.PasswordAuth(nil)}}.Execute(dev)
	must.Do(t, errors.Join(err, dev.Close()))
}

// Provision keeps a storage root key in it, for RSA, as systems do that take a TPM into
// use.
func (e *TPM) Provision(t testing.TB) {
	t.Helper()
	dev := must.Get(linuxudstpm.Open(e.Device))(t)
	owner := tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)}
	made, err := tpm2.CreatePrimary{PrimaryHandle: owner, InPublic: tpm2.New2B(tpm2.RSASRKTemplate)}.Execute(dev)
	must.Do(t, err)
	_, err = tpm2.EvictControl{
		Auth: owner, ObjectHandle: &tpm2.NamedHandle{Handle: made.ObjectHandle, Name: made.Name}, PersistentHandle: 0x81000001,
	}.Execute(dev)
	must.Do(t, err)
	_, err = tpm2.FlushContext{FlushHandle: made.ObjectHandle}.Execute(dev)
	must.Do(t, errors.Join(err, dev.Close()))
}

// SetOwnerPassword gives its owner hierarchy a password; "" takes it away.
func (e *TPM) SetOwnerPassword(t testing.TB, password string) {
	t.Helper()
	dev := must.Get(linuxudstpm.Open(e.Device))(t)
	_, err := tpm2.HierarchyChangeAuth{
		AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth([]byte(e.password))},
		NewAuth:    tpm2.TPM2BAuth{Buffer: []byte(password)},
	}.Execute(dev)
	must.Do(t, errors.Join(err, dev.Close()))
	e.password = password
}

// LockOut makes it refuse all keys that count for guessed passwords, as after too many
// of them: no try is left (TPM2_DictionaryAttackParameters, TPM 2.0 Part 3, 25.3).
func (e *TPM) LockOut(t testing.TB) {
	t.Helper()
	dev := must.Get(linuxudstpm.Open(e.Device))(t)
	command := []byte{
		0x80, 0x02, 0, 0, 0, 39, 0, 0, 0x01, 0x3a, // with authorisation, 39 bytes, the command
		0x40, 0, 0, 0x0a, // of the lockout hierarchy
		0, 0, 0, 9, 0x40, 0, 0, 0x09, 0, 0, 0, 0, 0, // by its empty password
		0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x10, 0, // tries; seconds until it ends, twice
	}
	res, err := dev.Send(command)
	must.Do(t, errors.Join(err, dev.Close()))
	if len(res) < 10 || binary.BigEndian.Uint32(res[6:]) != 0 {
		t.Fatalf("the TPM answered %x", res)
	}
}
