package process

import (
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress/secret"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// TestInjectedSecret: Tier B passes a secret to a program in a variable. It has no in-memory
// file system, so secret files are refused before the program starts.
func TestInjectedSecret(t *testing.T) {
	t.Parallel()
	r, root := newTestRunner(t), jailtest.Workspace(t)
	const value = "s3cr3t-value-of-the-key"
	s := jailtest.Shell(t, root, `printf %s "$KEY"; find "$HOME" "$TMPDIR" -type f`)
	s.Injected = []sandbox.Injected{{Env: "KEY", Value: []byte(value)}}
	s.Scrub = must.Get(secret.NewValues(secret.Value{Secret: []byte(value), Shown: "<the key>"}))(t).Scrub
	if got := jailtest.Output(t, r, s); got != "<the key>" {
		t.Errorf("the program wrote %q", got)
	}
	s.Injected[0].File = "key.txt"
	if _, err := r.Run(t.Context(), s); reason.Of(err) != reason.SandboxUnavailable || strings.Contains(err.Error(), value) {
		t.Errorf("a file: %v", err)
	}
}
