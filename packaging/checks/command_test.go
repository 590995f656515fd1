//go:build linux

package checks

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// result is the outcome of a command.
type result struct {
	command string
	code    int
	out     string
}

// run runs a command of this system and returns its outcome. A command that a signal ended has the
// code -1.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return outcome(t, exec.CommandContext(t.Context(), args[0], args[1:]...))
}

func outcome(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{strings.Join(cmd.Args, " "), cmd.ProcessState.ExitCode(), string(out)}
}

// succeeds ends the case if the command failed.
func (r result) succeeds(t *testing.T) result {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("%s: exit code %d:\n%s", r.command, r.code, r.out)
	}
	return r
}

// refuses ends the case if the command succeeded or if its output lacks one of the texts.
func (r result) refuses(t *testing.T, texts ...string) result {
	t.Helper()
	if r.code == 0 {
		t.Fatalf("%s succeeded:\n%s", r.command, r.out)
	}
	return r.prints(t, texts...)
}

// prints ends the case if the output lacks one of the texts.
func (r result) prints(t *testing.T, texts ...string) result {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.out, text) {
			t.Fatalf("%s: exit code %d; the output lacks %q:\n%s", r.command, r.code, text, r.out)
		}
	}
	return r
}

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	do(t, os.WriteFile(path, []byte(text), mode))
	do(t, os.Chmod(path, mode)) // the umask does not count
}
