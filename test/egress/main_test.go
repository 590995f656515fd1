//go:build linux

package egress

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox/bubblewrap"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// goClient is the program test/egress/client, built for this run.
var goClient []byte

func TestMain(m *testing.M) {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "egress:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// prepare fails if a test could not run. Otherwise such a test would look as if it had passed.
func prepare() (err error) {
	for program, pack := range map[string]string{
		"bash": "bash", "curl": "curl", "wget": "wget", "git": "git", "python3": "python3", "pip3": "python3-pip", "node": "nodejs", "npm": "npm",
	} {
		if !installed(program) {
			err = errors.Join(err, fmt.Errorf("%s is not where sandboxes look for it: install the package %s", program, pack))
		}
	}
	if err != nil {
		return err
	}
	r, err := bubblewrap.New(bubblewrap.Config{Enabled: true})
	if err != nil {
		return err
	}
	defer r.Close()
	if status := r.Probe(context.Background()); status.Problem != "" {
		return fmt.Errorf("no sandbox can be built: %s. %s (`make test` builds and installs what the tests need)", status.Problem, status.Remedy)
	}
	goClient, err = jailtest.Build("palyra/test/egress/client")
	return err
}

func installed(program string) bool {
	_, err := command.ResolveExecutable(program, command.SearchPath())
	return err == nil
}
