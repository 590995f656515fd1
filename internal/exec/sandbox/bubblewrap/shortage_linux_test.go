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

	"golang.org/x/sys/unix"

	"palyra/internal/core/needs"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// shortSpec, if set, makes this binary run a spec during a shortage of a resource, and again after
// it. A separate process is necessary, because the limits apply to a whole process or user.
const shortSpec = "TEST_PALYRA_SHORT"

// shortOrder is the input of that process.
type shortOrder struct {
	Spec sandbox.Spec
	// InFlight makes the shortage one of descriptors in flight over sockets, instead of open files.
	InFlight bool
}

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
	end, err := begin(o)
	if err != nil {
		return nil, err
	}
	run()
	if err := end(); err != nil {
		return nil, err
	}
	run()
	return results, nil
}

// begin begins the shortage and returns a function that ends it.
func begin(o shortOrder) (end func() error, err error) {
	limit := func(files uint64) error {
		var own syscall.Rlimit
		return errors.Join(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: own.Max}))
	}
	const enough = 512
	if !o.InFlight {
		return func() error { return limit(enough) }, limit(0)
	}
	// The kernel compares the descriptors in flight of a user with the limit of open files.
	if err := limit(enough); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	rights := make([]int, 200)
	for {
		switch err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(rights...), nil, 0); {
		case errors.Is(err, unix.ETOOMANYREFS):
			return func() error { return errors.Join(unix.Close(pair[0]), unix.Close(pair[1])) }, nil
		case err != nil:
			return nil, err
		}
	}
}

// shortage runs a program in a process of an ordinary user. Descriptors in flight count for all
// processes of a user, so that shortage needs a user of its own.
func shortage(t *testing.T, inFlight bool) []shortResult {
	t.Helper()
	needs.Sandbox(t)
	s := jailtest.Shell(t, jailtest.Workspace(t), "echo ran")
	s.Workspace = sandbox.ReadOnly
	cmd := jailtest.Again(t, shortSpec, shortOrder{s, inFlight})
	jailtest.Demote(t, cmd, s.WorkspaceRoot)
	if inFlight {
		const own = 31338
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: own, Gid: own}
		if err := os.Chown(s.WorkspaceRoot, own, own); err != nil {
			t.Fatal(err)
		}
	}
	var results []shortResult
	jailtest.Answer(t, cmd, &results)
	if second := results[1]; second.Output != "ran\n" || second.Error != "" { // control
		t.Errorf("after the shortage: %+v", second)
	}
	return results
}

// TestShortageFailsOneCall: a runner that can open no file refuses the call with that reason and
// the next step, although it never found bubblewrap before. The next call runs.
func TestShortageFailsOneCall(t *testing.T) {
	t.Parallel()
	first := shortage(t, false)[0]
	if !first.Passing || strings.Contains(first.Error, "not installed") || first.Output != "" || !strings.Contains(first.NextStep, "LimitNOFILE") {
		t.Errorf("without descriptors: %+v", first)
	}
}

// TestDescriptorsInFlight: while programs of the user have too many descriptors in flight, a
// sandbox cannot receive its order. The call fails at once with that reason. The next call runs.
func TestDescriptorsInFlight(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the shortage would affect all tests of this user; only root starts a process of another one")
	}
	first := shortage(t, true)[0]
	if !first.Passing || first.Output != "" || !strings.Contains(first.NextStep, "in flight") || first.Took > time.Minute {
		t.Errorf("with descriptors in flight: %+v", first)
	}
}
