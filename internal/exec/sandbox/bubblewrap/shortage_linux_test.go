package bubblewrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra/internal/core/needs"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// shortSpec, if set, makes this binary run a spec during a shortage of a resource, and again after
// it. A separate process is necessary, because the limits apply to a whole process or user.
const shortSpec = "TEST_PALYRA_SHORT"

// shortOrder is the input of that process.
type shortOrder struct{ Spec sandbox.Spec }

// shortResult is the result of a run, or its error.
type shortResult struct {
	Output, Error, NextStep string
	Passing                 bool
	Took                    time.Duration
}

func shortMain() int {
	results, err := shortRuns()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(results)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func shortRuns() (results []shortResult, err error) {
	var o shortOrder
	helper, err := jailtest.Helper()
	if err = errors.Join(err, json.Unmarshal([]byte(os.Getenv(shortSpec)), &o)); err != nil {
		return nil, err
	}
	r, err := newRunner(Config{Enabled: true}, helper)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	run := func() {
		started := time.Now()
		report, err := r.Run(context.Background(), o.Spec)
		result := shortResult{Output: string(report.Stdout.Head), Passing: sandbox.Passing(err), Took: time.Since(started)}
		if err != nil {
			result.Error, result.NextStep = err.Error(), reason.Known(err, reason.Internal).NextStep()
		}
		results = append(results, result)
	}
	limit := func(files uint64) error {
		var own syscall.Rlimit
		return errors.Join(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: own.Max}))
	}
	const enough = 512
	for _, files := range []uint64{0, enough} {
		if err := limit(files); err != nil {
			return nil, err
		}
		run()
	}
	return results, nil
}

// TestShortageFailsOneCall: a runner that can open no file refuses the call with that reason and
// the next step, although it never found bubblewrap before. The next call runs. The runner is in a
// process of an ordinary user, because the limit applies to a whole process.
func TestShortageFailsOneCall(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	s := jailtest.Shell(t, jailtest.Workspace(t), "echo ran")
	s.Workspace = sandbox.ReadOnly
	cmd := jailtest.Again(t, shortSpec, shortOrder{s})
	jailtest.Demote(t, cmd, s.WorkspaceRoot)
	var results []shortResult
	jailtest.Answer(t, cmd, &results)
	if second := results[1]; second.Output != "ran\n" || second.Error != "" { // control
		t.Errorf("after the shortage: %+v", second)
	}
	first := results[0]
	if !first.Passing || strings.Contains(first.Error, "not installed") || first.Output != "" || !strings.Contains(first.NextStep, "LimitNOFILE") {
		t.Errorf("without descriptors: %+v", first)
	}
}
