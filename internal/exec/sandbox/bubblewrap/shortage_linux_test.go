package bubblewrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// shortSpec, if set, makes this binary run a spec while no further file can be opened, and again
// after that. A separate process is necessary, because the limit applies to a whole process.
const shortSpec = "TEST_PALYRA_SHORT"

// shortResult is the result of a run, or its error.
type shortResult struct {
	Output, Error, NextStep string
	Passing, Missing        bool
}

func shortMain() int {
	var s sandbox.Spec
	helper, err := jailtest.Helper()
	if err = errors.Join(err, json.Unmarshal([]byte(os.Getenv(shortSpec)), &s)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r, err := newRunner(Config{Enabled: true}, helper)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer r.Close()
	results := []shortResult{}
	var own syscall.Rlimit
	for _, limit := range []uint64{0, 512} {
		if err := errors.Join(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit, Max: own.Max})); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		report, err := r.Run(context.Background(), s)
		result := shortResult{Output: string(report.Stdout.Head), Passing: sandbox.Passing(err)}
		if err != nil {
			result.Error, result.NextStep = err.Error(), reason.Known(err, reason.Internal).NextStep()
			result.Missing = strings.Contains(result.Error, "not installed")
		}
		results = append(results, result)
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		return 1
	}
	return 0
}

// TestShortageFailsOneCall: a runner that can open no file refuses the call with that reason and
// the next step, although it never found bubblewrap before. The next call runs.
func TestShortageFailsOneCall(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	s := jailtest.Shell(t, jailtest.Workspace(t), "echo ran")
	s.Workspace = sandbox.ReadOnly
	spec := must.Get(json.Marshal(s))(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), shortSpec+"="+string(spec))
	cmd.Stderr = t.Output()
	var results []shortResult
	must.Do(t, json.Unmarshal(must.Get(cmd.Output())(t), &results))
	if first := results[0]; !first.Passing || first.Missing || first.Output != "" || !strings.Contains(first.NextStep, "LimitNOFILE") {
		t.Errorf("without descriptors: %+v", first)
	}
	if second := results[1]; second.Output != "ran\n" || second.Error != "" { // control
		t.Errorf("with descriptors: %+v", second)
	}
}
