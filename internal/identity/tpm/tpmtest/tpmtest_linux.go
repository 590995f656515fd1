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

// TPM is a software TPM with separate state.
type TPM struct {
	// Device is the socket on which it listens.
	Device string
	dir    string
	// password is the password of the owner hierarchy.
	password string
	cmd      *exec.Cmd
	ended    chan struct{}
}

// Start creates a TPM and starts it. It stops when the test ends.
func Start(t testing.TB) *TPM {
	t.Helper()
	// A separate directory keeps the path short: the name of a socket has at most 107 bytes.
	dir := must.Get(os.MkdirTemp("", "tpm"))(t)
	t.Cleanup(func() { must.Check(t, os.RemoveAll(dir)) })
	e := &TPM{Device: filepath.Join(dir, "socket"), dir: dir}
	e.Boot(t)
	t.Cleanup(e.Halt)
	return e
}

// Boot starts a halted TPM with its saved state.
func (e *TPM) Boot(t testing.TB) {
	t.Helper()
	needs.Programs(t, "swtpm")
	program := must.Get(exec.LookPath("swtpm"))(t)
	// The process writes its pid once it listens. A pipe lets the test wait for that.
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

// Halt stops the TPM, as if the machine no longer had one.
func (e *TPM) Halt() {
	if e.cmd == nil {
		return
	}
	_ = e.cmd.Process.Kill()
	<-e.ended
	_ = os.Remove(e.Device)
	e.cmd = nil
}

// Signal sends a signal to the TPM's process: SIGSTOP makes it hang.
func (e *TPM) Signal(t testing.TB, s os.Signal) {
	t.Helper()
	must.Do(t, e.cmd.Process.Signal(s))
}

// Clear erases all keys of the TPM, as the firmware's settings can.
func (e *TPM) Clear(t testing.TB) {
	t.Helper()
	dev := must.Get(linuxudstpm.Open(e.Device))(t)
	_, err := tpm2.Clear{AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHLockout, Auth: tpm2.PasswordAuth(nil)}}.Execute(dev)
	must.Do(t, errors.Join(err, dev.Close()))
}

// Provision stores an RSA storage root key in the TPM, as systems do when they take ownership of
// it.
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

// SetOwnerPassword sets the password of the owner hierarchy; "" removes it.
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

// LockOut makes the TPM refuse all keys that are subject to the lockout, as after too many
// guessed passwords. It sets the number of permitted tries to 0
// (TPM2_DictionaryAttackParameters, TPM 2.0 Part 3, 25.3).
func (e *TPM) LockOut(t testing.TB) {
	t.Helper()
	dev := must.Get(linuxudstpm.Open(e.Device))(t)
	command := []byte{
		0x80, 0x02, 0, 0, 0, 39, 0, 0, 0x01, 0x3a, // with authorisation, 39 bytes, the command
		0x40, 0, 0, 0x0a, // the lockout hierarchy
		0, 0, 0, 9, 0x40, 0, 0, 0x09, 0, 0, 0, 0, 0, // its empty password
		0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x10, 0, // tries; seconds until it ends, twice
	}
	res, err := dev.Send(command)
	must.Do(t, errors.Join(err, dev.Close()))
	if len(res) < 10 || binary.BigEndian.Uint32(res[6:]) != 0 {
		t.Fatalf("the TPM answered %x", res)
	}
}
