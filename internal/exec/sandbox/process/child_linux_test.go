package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// childErrand is the variable with the errand of a restarted test binary. Tests restart the
// binary to run as another user or as a daemon that they can kill.
const childErrand = "TEST_PALYRA_ERRAND"

// errand is the input of the child.
type errand struct {
	Spec     sandbox.Spec
	LayerDir string
	Alone    bool
	Without  []string
	// Hosts are the hosts of Spec.Network, because a Reach cannot be encoded as JSON.
	Hosts []string
}

// childResult is the output of the child.
type childResult struct {
	Report sandbox.Report
	Error  string
	UID    int
}

func childMain() int {
	var e errand
	helper, err := jailtest.Helper()
	undumpable, failed := jailtest.Undumpable()
	if err = errors.Join(err, failed, json.Unmarshal([]byte(os.Getenv(childErrand)), &e)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r, err := e.runner(helper)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if e.Hosts != nil {
		allow, err := egress.ParseRules(e.Hosts)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		e.Spec.Network = &egress.Reach{Rules: egress.Rules{Allow: allow}}
	}
	// The output notifies a reader of the child's standard error that the program runs.
	e.Spec.Output = func(_ string, chunk []byte) { fmt.Fprintf(os.Stderr, "output: %s\n", chunk) }
	report, err := r.Run(context.Background(), e.Spec)
	if report.Layer != nil {
		err = errors.Join(err, report.Layer.Close())
		report.Layer = nil
	}
	result := childResult{Report: report, UID: os.Getuid()}
	if err = errors.Join(err, undumpable(), r.Close()); err != nil {
		result.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		return 1
	}
	return 0
}

func (e errand) runner(helper []byte) (*Runner, error) {
	cfg := Config{Enabled: true, LayerDir: e.LayerDir, QuarantineDir: e.LayerDir, Without: e.Without}
	if !e.Alone {
		return newRunner(cfg, helper)
	}
	r := &Runner{cfg: cfg, lack: "this test has none"}
	err := r.open(sandbox.Landlocked, helper)
	if err == nil {
		r.problem = r.checkAlone()
	}
	return r, err
}

// command returns the command of the child, which runs as an ordinary user.
func (e errand) command(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := jailtest.Again(t, childErrand, e)
	jailtest.Demote(t, cmd, e.Spec.WorkspaceRoot, e.LayerDir)
	return cmd
}

// asOrdinary runs a spec in a daemon of an ordinary user.
func asOrdinary(t *testing.T, e errand) childResult {
	t.Helper()
	var result childResult
	jailtest.Answer(t, e.command(t), &result)
	if result.UID == 0 {
		t.Fatal("the child is root")
	}
	return result
}
