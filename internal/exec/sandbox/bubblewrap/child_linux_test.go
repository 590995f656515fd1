package bubblewrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// childSpec is the variable with the input of a restarted test binary. Tests restart the binary
// to run as another user or as a daemon that they can kill.
const childSpec = "TEST_PALYRA_SPEC"

// childOrder is the input of the child. Hosts are separate, because a Reach cannot be encoded
// as JSON.
type childOrder struct {
	Spec  sandbox.Spec
	Hosts []string
}

// childResult is the output of the child.
type childResult struct {
	Report sandbox.Report
	// Changes are the changes of a copy of the workspace.
	Changes []string
	Error   string
	UID     int
}

func childMain() int {
	var o childOrder
	helper, err := jailtest.Helper()
	undumpable, failed := jailtest.Undumpable()
	if err = errors.Join(err, failed, json.Unmarshal([]byte(os.Getenv(childSpec)), &o)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := o.Spec
	if o.Hosts != nil {
		allow, err := egress.ParseRules(o.Hosts)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		s.Network = &egress.Reach{Rules: egress.Rules{Allow: allow}}
	}
	// The parent of the workspace is removed with the test, even if this process is killed.
	dir, err := os.MkdirTemp(filepath.Dir(s.WorkspaceRoot), "state-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r, err := newRunner(testConfig(dir), helper)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// The output notifies a reader of the child's standard error that the program runs.
	s.Output = func(_ string, chunk []byte) { fmt.Fprintf(os.Stderr, "output: %s\n", chunk) }
	report, err := r.Run(context.Background(), s)
	result := childResult{Report: report, UID: os.Getuid()}
	if report.Layer != nil {
		set, changesErr := report.Layer.Changes(context.Background())
		for _, c := range set.Changes {
			result.Changes = append(result.Changes, string(c.Op())+" "+c.Path)
		}
		err = errors.Join(err, changesErr, report.Layer.Close())
		result.Report.Layer = nil
	}
	if err = errors.Join(err, undumpable(), r.Close()); err != nil {
		result.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		return 1
	}
	return 0
}
