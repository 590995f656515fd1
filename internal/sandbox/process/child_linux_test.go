package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"palyra/internal/sandbox"
)

// A test that needs another user, or a daemon to kill, starts this binary
// again with an errand.
const (
	childErrand = "PALYRA_TEST_ERRAND"
	helperPath  = "PALYRA_TEST_HELPER"
)

// errand is what the child does.
type errand struct {
	Spec     sandbox.Spec
	LayerDir string
	Alone    bool
	Without  []string
}

// childResult is what the child prints.
type childResult struct {
	Report sandbox.Report
	Error  string
	UID    int
}

func childMain() int {
	var e errand
	if err := errors.Join(json.Unmarshal([]byte(os.Getenv(childErrand)), &e), buildHelper()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r, err := e.runner()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Whoever waits on the child's errors learns that the program runs.
	e.Spec.Output = func(_ string, chunk []byte) { fmt.Fprintf(os.Stderr, "output: %s\n", chunk) }
	report, err := r.Run(context.Background(), e.Spec)
	if report.Layer != nil {
		err = errors.Join(err, report.Layer.Close())
		report.Layer = nil
	}
	result := childResult{Report: report, UID: os.Getuid()}
	if err = errors.Join(err, r.Close()); err != nil {
		result.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		return 1
	}
	return 0
}

func (e errand) runner() (*Runner, error) {
	cfg := Config{Enabled: true, LayerDir: e.LayerDir, QuarantineDir: e.LayerDir, Without: e.Without}
	if !e.Alone {
		return newRunner(cfg, helperProgram)
	}
	r := &Runner{cfg: cfg, lack: "this test has none"}
	err := r.open(sandbox.Landlocked, helperProgram)
	if err == nil {
		r.problem = r.checkAlone()
	}
	return r, err
}

// ordinary is the user whose daemon the child is, when this test is root.
const ordinary = 65534

// command is the child, as an ordinary user: this one, or nobody.
func (e errand) command(t *testing.T) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	helper, program := filepath.Join(dir, "helper"), filepath.Join(dir, "child.test")
	writeFile(t, helper, string(helperProgram), 0o755)
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, program, string(binary), 0o755)
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = []string{"PATH=/usr/bin:/bin", childErrand + "=" + string(text), helperPath + "=" + helper, "GORACE=atexit_sleep_ms=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: ordinary, Gid: ordinary}
		for _, owned := range []string{e.Spec.WorkspaceRoot, e.LayerDir} {
			giveAway(t, owned)
		}
	}
	return cmd
}

func giveAway(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, ordinary, ordinary))
	})
	if err != nil {
		t.Fatal(err)
	}
	for at := filepath.Dir(root); at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// asOrdinary runs a spec by an ordinary user's daemon.
func asOrdinary(t *testing.T, e errand) childResult {
	t.Helper()
	cmd := e.command(t)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	var result childResult
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if result.UID == 0 {
		t.Fatal("the child is root")
	}
	return result
}
