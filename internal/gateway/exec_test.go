package gateway

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox/exec"
)

// executed is the outcome of `palyrad sandbox exec`.
type executed struct {
	code        int
	err         error
	out, errOut string
}

// sandboxExec runs `palyrad sandbox exec` with a standard input.
func sandboxExec(t *testing.T, stdin string, args ...string) executed {
	t.Helper()
	var out, errOut bytes.Buffer
	c := Command(&out, &errOut)
	c.SetIn(strings.NewReader(stdin))
	c.SetArgs(append([]string{"sandbox", "exec"}, args...))
	err := c.ExecuteContext(t.Context())
	e := executed{err: err, out: out.String(), errOut: errOut.String()}
	var exit ExitError
	if errors.As(err, &exit) {
		e.code, e.err = exit.Code, exit.Err
	} else if err != nil {
		t.Fatalf("%v has no exit code of its own: %v", args, err)
	}
	return e
}

// TestExecRefuses: an invalid command line is palyrad's own failure, exit code 125, and no
// program runs.
func TestExecRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, row := range []struct {
		args []string
		says string
		code reason.Code
	}{
		{nil, "name the program", reason.InvalidInput},
		{[]string{"--nope", "--", "true"}, "unknown flag", reason.InvalidInput},
		{[]string{"--config", "palyra.toml", "--", "true"}, "unknown flag", reason.InvalidInput}, // the command reads no configuration
		{[]string{"--tier", "a", "--", "true"}, "must be b or c", reason.InvalidInput},
		{[]string{"--egress", "some", "--", "true"}, "egress mode", reason.InvalidInput},
		{[]string{"--allow", "example.org", "--", "true"}, "names no port", reason.HostInvalid},
		{[]string{"--allow", "localhost:8080", "--", "true"}, "programs connect to the address of localhost:8080", reason.HostInvalid},
		{[]string{"--allow", "https://example.org", "--", "true"}, "it is a URL", reason.HostInvalid},
		{[]string{"--allow", "example.org:443", "--deny", "0x7f.1", "--", "true"}, "neither a name nor an IP address", reason.HostInvalid},
		{[]string{"--deny", "example.org:443", "--", "true"}, "requires --allow", reason.InvalidInput},
		{[]string{"--egress", "preflight", "--allow", "127.0.0.1:80", "--deny", "example.org", "--", "true"}, "and --egress strict", reason.InvalidInput},
		{[]string{"--egress", "unrestricted", "--allow", "example.org:443", "--", "true"}, "checks nothing", reason.InvalidInput},
		{[]string{"--egress", "preflight", "--allow", "169.254.169.254:80", "--", "true"}, "not public", reason.EgressDenied},
		{[]string{"--egress", "preflight", "--allow", "example.org", "--", "true"}, "", reason.HostInvalid},
		{[]string{"--cow", "--", "true"}, "--cow requires --workspace", reason.InvalidInput},
		{[]string{"--workspace", dir, "--cow", "--read-only", "--", "true"}, "exclude each other", reason.InvalidInput},
		{[]string{"--workspace", dir, "--commit", "yes", "--", "true"}, "--commit requires --cow", reason.InvalidInput},
		{[]string{"--workspace", dir, "--cow", "--commit", "maybe", "--", "true"}, "must be no, yes or ask", reason.InvalidInput},
		{[]string{"--workspace", filepath.Join(dir, "none"), "--", "true"}, "--workspace", reason.WorkspaceScope},
		{[]string{"--limit", "memory=lots", "--", "true"}, "must be a number", reason.InvalidInput},
		{[]string{"--limit", "hope=1", "--", "true"}, "the limit does not exist", reason.InvalidInput},
		{[]string{"--limit", "memory=1k", "--", "true"}, "must be at least", reason.InvalidInput},
		{[]string{"--", "no-such-program"}, "was not found", reason.SpawnFailed},
	} {
		e := sandboxExec(t, "", row.args...)
		if e.code != exec.Failed || reason.Of(e.err) != row.code || !strings.Contains(e.err.Error(), row.says) {
			t.Errorf("%v: code %d, %v", row.args, e.code, e.err)
		}
	}
}
