package people_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
	"palyra/internal/identity"
)

// TestGoldenTokens compares the output of every listing and page in every format.
func TestGoldenTokens(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"tokens_list":   {"tokens", "list"},
		"tokens_all":    {"tokens", "list", "--all"},
		"tokens_create": {"tokens", "create", "ci", "--for", "agent:claude", "--from", "10.0.0.0/8", "--life", "30d"},
		"tokens_revoke": {"tokens", "revoke", clitest.TokenID, "--yes"},
	})
}

func TestTokens(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Cases("tokens", clitest.Cases{
		{"create says that the text is shown once", []string{"create", "ci"}, 0, "the only time"},
		{"create with a life that is none", []string{"create", "ci", "--life", "soon"}, 2, "30m, 2h or 3d"},
		{"create without a name", []string{"create"}, 2, ""},
		{"list of a device", []string{"list", "--device", "01DEVICE000000000000000000"}, 0, clitest.TokenID},
		{"list of another device", []string{"list", "--device", "01UNKN0WN00000000000000000"}, 0, "no tokens"},
		{"revoke by the beginning of the id", []string{"revoke", strings.ToLower(clitest.TokenID[:8]), "--yes"}, 0, "user:ada"},
		{"revoke without a yes", []string{"revoke", clitest.TokenID}, 2, "--yes"},
		{"revoke of none", []string{"revoke", "01UNKN0WN00000000000000000", "--yes"}, 1, "not found"},
	})
	made := clitest.Requests[*palyrav1.CreateTokenRequest](w)
	if len(made) != 1 || made[0].GetLife().AsDuration() != 90*24*time.Hour || strings.Join(made[0].GetScopes(), " ") != "tool.list tool.call" {
		t.Errorf("asked for: %v", made)
	}
}

// TestCreateBundle: with --out the token is written only to a bundle that other users cannot
// read. If the bundle cannot be written, no token is created.
func TestCreateBundle(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	dir := filepath.Join(t.TempDir(), "ci")
	r := w.Run("tokens", "create", "ci", "--out", dir)
	if r.Code != 0 || strings.Contains(r.Out+r.Err, clitest.TokenText) {
		t.Fatalf("exit %d:\n%s%s", r.Code, r.Out, r.Err)
	}
	b := must.Get(identity.ReadBundle(dir))(t)
	if b.Token != clitest.TokenText || b.Address == "" || b.ServerName == "" || strings.Contains(b.String()+b.GoString(), "5ec2e7") {
		t.Errorf("the bundle is %v", b)
	}
	info := must.Get(os.Stat(filepath.Join(dir, "token")))(t)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if r := w.Run("--credentials", dir, "status"); r.Code != 0 {
		t.Errorf("with the bundle: exit %d\n%s", r.Code, r.Err)
	}
	if r := w.Run("tokens", "create", "ci", "--out", dir); r.Code == 0 || !strings.Contains(r.Err, "already holds a credential") {
		t.Errorf("twice: exit %d\n%s", r.Code, r.Err)
	}
	if r := w.Run("tokens", "create", "ci", "--out", filepath.Join(w.Write("file", "x"), "below")); r.Code == 0 {
		t.Error("into a file")
	}
	if n := len(clitest.Requests[*palyrav1.CreateTokenRequest](w)); n != 1 {
		t.Errorf("%d tokens", n)
	}
}
