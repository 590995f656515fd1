package people_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// A new member whose addition waits for a second person has its key stored, and the same
// command completes the addition later. A refused addition leaves no key, and a previous key is
// kept.
func TestPendingMemberKeepsItsKey(t *testing.T) {
	t.Parallel()
	pending := clitest.GatewayError(connect.CodeFailedPrecondition, reason.ChangePending, "the change waits", map[string]string{"approval_id": clitest.ApprovalID})
	denied := clitest.GatewayError(connect.CodePermissionDenied, reason.ApprovalDenied, "bob said no", nil)
	for name, c := range map[string]struct {
		before bool
		err    error
		code   int
		kept   bool
	}{
		"waits":                         {false, pending, 11, true},
		"still waits":                   {true, pending, 11, true},
		"control: denied":               {false, denied, 4, false},
		"denied, with an earlier key":   {true, denied, 4, true},
		"lost connection while it asks": {false, connect.NewError(connect.CodeUnavailable, os.ErrDeadlineExceeded), 6, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := clitest.NewWorld(t)
			dir := filepath.Join(t.TempDir(), "eve.palyra")
			var key string
			if c.before {
				must.Get(identity.BundleKey(dir))(t)
				key = string(must.Get(os.ReadFile(filepath.Join(dir, "key.pem")))(t))
			}
			w.Gateway.Fail = c.err
			r := w.Run("members", "add", "eve", "--role", "auditor", "--out", dir)
			w.Want(r, c.code)
			text, err := os.ReadFile(filepath.Join(dir, "key.pem"))
			if (err == nil) != c.kept || c.before && string(text) != key {
				t.Errorf("the key: %v, kept unchanged: %v", err, string(text) == key)
			}
			if c.code == reason.ExitPending && !strings.Contains(r.Out, clitest.ApprovalID) {
				t.Errorf("the id is not printed: %s", r.Out)
			}
		})
	}
	w := clitest.NewWorld(t)
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "cert.pem"), nil, 0o600))
	if r := w.Run("members", "add", "eve", "--role", "auditor", "--out", dir); r.Code != reason.ExitConflict || !strings.Contains(r.Err, "exists already") {
		t.Errorf("a complete bundle is overwritten: %d, %s", r.Code, r.Err)
	}
}
