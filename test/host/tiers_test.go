//go:build linux

package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"palyra/internal/must"
)

// fakeGo lists the packages that it is given, and tests them: those named *bad*
// fail, as those do that panic. It keeps how it was called.
const fakeGo = `#!/bin/sh
if [ "$1" = list ]; then
  shift
  printf '%s\n' "$@"
  exit
fi
echo "$CGO_ENABLED $*" >>"$CALLS"
code=0
for word; do
  case $word in
    palyra/*bad*) printf -- '--- FAIL: TestBad (0.00s)\n    x_test.go:1: it went wrong\nFAIL\nFAIL\t%s\t0.1s\n' "$word"; code=1 ;;
    palyra/*) printf 'ok  \t%s\t0.1s\n' "$word" ;;
  esac
done
exit $code
`

// tiers runs scripts/test.sh with the fake, and returns its exit code, what it
// said and the calls of go test.
func tiers(t *testing.T, env []string, packages ...string) (code int, said string, calls []string) {
	t.Helper()
	dir := t.TempDir()
	fake := filepath.Join(dir, "go")
	must.Do(t, os.WriteFile(fake, []byte(fakeGo), 0o755))
	script := must.Get(filepath.Abs("../../scripts/test.sh"))(t)
	cmd := exec.CommandContext(t.Context(), script, packages...)
	// `make test` itself sets WEB and NODE_BIN: a test sets either where it needs it.
	cmd.Env = append(append(os.Environ(), "WEB=", "NODE_BIN=", "GO="+fake, "CALLS="+filepath.Join(dir, "calls"), "TMPDIR="+dir), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "calls")); err == nil {
		calls = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	if left := must.Get(filepath.Glob(filepath.Join(dir, "tmp.*")))(t); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	return cmd.ProcessState.ExitCode(), string(out), calls
}

// TestTiers: each package is tested once, with the race detector or without, and
// the times of all tiers stand at the end.
func TestTiers(t *testing.T) {
	t.Parallel()
	code, said, calls := tiers(t, nil, "palyra/internal/x", "palyra/test/attack", "palyra/test/e2e", "palyra/test/host", "palyra/test/egress")
	if code != 0 || strings.Contains(said, "warning") || strings.Contains(said, "== failed") {
		t.Errorf("exit code %d: %s", code, said)
	}
	for i, want := range []string{`^1 test -race .* palyra/internal/x palyra/test/egress$`, `^1 test -race .* palyra/test/attack$`, `^0 test -trimpath .* palyra/test/e2e palyra/test/host$`} {
		if i >= len(calls) || !regexp.MustCompile(want).MatchString(calls[i]) {
			t.Errorf("call %d is not %s: %q", i, want, calls)
		}
	}
	_, end, _ := strings.Cut(said, "== tiers\n")
	if !regexp.MustCompile(`^race +ok +\d+m\d\ds of 10m00s\nattack +ok +\d+m\d\ds of 4m00s\nprograms +ok +\d+m\d\ds of 12m00s\n+$`).MatchString(end) {
		t.Errorf("the end of the log is %q", end)
	}
	if _, said, calls := tiers(t, nil, "palyra/internal/x"); len(calls) != 1 || strings.Contains(said, "attack") {
		t.Errorf("one package: %q: %s", calls, said)
	}
	if _, _, calls := tiers(t, []string{"RACE=-race -gcflags=a/...=-b"}, "palyra/internal/x", "palyra/test/attack", "palyra/test/e2e"); len(calls) != 3 ||
		!strings.HasPrefix(calls[0], "1 test -race -gcflags=a/...=-b -tags ") || !strings.HasPrefix(calls[1], "1 test -race -gcflags=a/...=-b -tags ") || strings.Contains(calls[2], "race") {
		t.Errorf("with other flags: %q", calls)
	}
}

// TestTiersFail: a tier that fails, whichever, keeps none from running and fails
// the whole, and its tests and packages are named again at the end.
func TestTiersFail(t *testing.T) {
	t.Parallel()
	all := []string{"palyra/internal/x", "palyra/test/attack", "palyra/test/e2e"}
	for i, bad := range []string{"palyra/internal/bad", "palyra/test/attack/bad", "palyra/test/fault/bad"} {
		packages := slices.Clone(all)
		packages[i] = bad
		code, said, calls := tiers(t, nil, packages...)
		if code != 1 || len(calls) != 3 {
			t.Errorf("%s: exit code %d, calls %q", bad, code, calls)
		}
		_, end, _ := strings.Cut(said, "== failed\n")
		if end != "--- FAIL: TestBad (0.00s)\nFAIL\t"+bad+"\t0.1s\n" {
			t.Errorf("%s: the end of the log is %q", bad, end)
		}
	}
}

// TestTiersOverBudget: a tier that takes too long is warned of and fails nothing.
func TestTiersOverBudget(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"RACE", "ATTACK", "PROGRAMS"} {
		code, said, _ := tiers(t, []string{name + "_BUDGET=-1"}, "palyra/internal/x", "palyra/test/attack", "palyra/test/e2e")
		if code != 0 || strings.Count(said, "\nwarning: the tier "+strings.ToLower(name)+" took ") != 1 || strings.Count(said, "warning") != 1 {
			t.Errorf("%s: exit code %d: %s", name, code, said)
		}
	}
}

// TestTiersOfTheConsole: they come last, where they are asked for, and what fails in a
// browser stands once more at the end.
func TestTiersOfTheConsole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "npm"), []byte("#!/bin/sh\necho \"  ✘  1 e2e/$5.spec.ts:1:1 › it\"\ntest $5 = test\n"), 0o755))
	path := "PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH")
	code, said, _ := tiers(t, []string{path, "WEB=npm", "WEB_BUDGET=61"}, "palyra/internal/x")
	if _, end, _ := strings.Cut(said, "== tiers\n"); code == 0 || !regexp.MustCompile(`(?s)\nweb +ok .* of 1m01s\nbrowser +FAIL .* of 4m00s\n.*== failed\n.*✘  1 e2e/test:browser`).MatchString(end) {
		t.Errorf("exit code %d: %s", code, said)
	}
	if _, said, _ := tiers(t, []string{path}, "palyra/internal/x"); strings.Contains(said, "browser") {
		t.Errorf("nobody asked for it: %s", said)
	}
}
