package tpmtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport/linuxudstpm"

	"palyra/internal/must"
)

// TPM is a TPM in software, with a state of its own.
type TPM struct {
	// Device is the socket that it listens on.
	Device string
	dir    string
	cmd    *exec.Cmd
	ended  chan struct{}
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
	program, err := exec.LookPath("swtpm")
	if err != nil {
		t.Fatal("this test needs swtpm: run `make deps-test`, or install the package swtpm")
	}
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

// Clear makes it forget all keys, as the firmware's settings can.
func (e *TPM) Clear(t testing.TB) {
	t.Helper()
	dev := must.Get(linuxudstpm.Open(e.Device))(t)
	_, err := tpm2.Clear{AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHLockout, Auth: tpm2.PasswordAuth(nil)}}.Execute(dev)
	must.Do(t, errors.Join(err, dev.Close()))
}

// SetOwnerPassword gives its owner hierarchy a password.
func (e *TPM) SetOwnerPassword(t testing.TB, password string) {
	t.Helper()
	dev := must.Get(linuxudstpm.Open(e.Device))(t)
	_, err := tpm2.HierarchyChangeAuth{
		AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)},
		NewAuth:    tpm2.TPM2BAuth{Buffer: []byte(password)},
	}.Execute(dev)
	must.Do(t, errors.Join(err, dev.Close()))
}
