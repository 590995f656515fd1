package jailtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
)

// User is the user ID that replaces root in tests. It belongs to no account.
const User = 31337

// Again prepares a process of this test binary, copied to a place where every user can start
// it. The process reads order, as JSON, from a variable.
func Again(t testing.TB, variable string, order any) *exec.Cmd {
	t.Helper()
	needs.Programs(t) // the process runs sandboxes
	program := must.Get(Helper())(t)
	binary := must.Get(os.ReadFile("/proc/self/exe"))(t)
	text := must.Get(json.Marshal(order))(t)
	dir := Dir(t)
	name, helper := filepath.Join(dir, "child.test"), filepath.Join(dir, "palyra-init")
	OpenPath(t, name)
	// A concurrently forked process would inherit the open file, and the binary could not be
	// started (ETXTBSY, execve(2)).
	syscall.ForkLock.RLock()
	err := os.WriteFile(name, binary, 0o600)
	syscall.ForkLock.RUnlock()
	if err = errors.Join(err, os.Chmod(name, 0o755)); err != nil { //nolint:gosec // others are to start it
		t.Fatal(err)
	}
	WriteFile(t, helper, string(program), 0o644)
	cmd := exec.Command(name)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", variable + "=" + string(text), helperPath + "=" + helper, "GORACE=atexit_sleep_ms=0"}
	return cmd
}

// Demote makes a process run as an ordinary user: the user of this test, or User if that is
// root. User then becomes the owner of the trees.
func Demote(t testing.TB, cmd *exec.Cmd, trees ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: User, Gid: User}}
	for _, root := range trees {
		GiveAway(t, root)
	}
}

// GiveAway makes User the owner of a tree, and permits User to enter the directories above it.
func GiveAway(t testing.TB, root string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(root, func(name string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(name, User, User))
	}))
	OpenPath(t, root)
}

// Answer runs a process of Again and decodes its JSON output.
func Answer(t testing.TB, cmd *exec.Cmd, answer any) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	if err := json.Unmarshal(out, answer); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// Undumpable makes this process undumpable, like palyrad (cmd/palyrad). The returned function
// returns an error if the process can be dumped again.
func Undumpable() (still func() error, err error) {
	return func() error {
		is, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		if err == nil && is != 0 {
			err = fmt.Errorf("the process can be dumped: PR_GET_DUMPABLE is %d", is)
		}
		return err
	}, unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
