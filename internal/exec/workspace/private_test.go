package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// TestNewSetKeepsPrivateApart: no workspace may overlap the policies or the configuration,
// because write access to them controls permissions.
func TestNewSetKeepsPrivateApart(t *testing.T) {
	t.Parallel()
	base := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	ws, elsewhere := filepath.Join(base, "ws"), filepath.Join(base, "elsewhere")
	write(t, filepath.Join(ws, "etc", "palyra.toml"), "")
	write(t, filepath.Join(ws, "policies", "a.cedar"), "")
	write(t, filepath.Join(elsewhere, "policies", "a.cedar"), "")
	write(t, filepath.Join(elsewhere, "palyra.toml"), "")
	for link, target := range map[string]string{
		filepath.Join(base, "in"):            filepath.Join(ws, "policies"),
		filepath.Join(ws, "out"):             filepath.Join(elsewhere, "policies"),
		filepath.Join(base, "chain"):         "ws/out",
		filepath.Join(base, "wslink"):        "ws",
		filepath.Join(elsewhere, "linked"):   filepath.Join(ws, "etc", "palyra.toml"),
		filepath.Join(elsewhere, "harmless"): "palyra.toml",
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Skip("no symbolic links here")
		}
	}
	for _, test := range []struct {
		name, workspace, private, says string
	}{
		{"policies inside", ws, filepath.Join(ws, "policies"), "contains"},
		{"policies inside, not made yet", ws, filepath.Join(ws, "later", "policies"), "contains"},
		{"policies by a link that leads in", ws, filepath.Join(base, "in"), "contains"},
		{"policies by a link that leads out", ws, filepath.Join(ws, "out"), "contains"},
		{"policies by a chain through it", ws, filepath.Join(base, "chain"), "contains"},
		{"the workspace by a link", filepath.Join(base, "wslink"), filepath.Join(ws, "policies"), "contains"},
		{"the workspace is the policies", filepath.Join(elsewhere, "policies"), filepath.Join(elsewhere, "policies"), "contains"},
		{"the workspace below the policies", filepath.Join(ws, "policies"), ws, "lies inside"},
		{"file inside", ws, filepath.Join(ws, "etc", "palyra.toml"), "contains"},
		{"file by a link", ws, filepath.Join(elsewhere, "linked"), "contains"},
		{"apart", ws, filepath.Join(elsewhere, "policies"), ""},
		{"file apart", ws, filepath.Join(elsewhere, "harmless"), ""},
		{"a name that begins alike", filepath.Join(base, "ws"), filepath.Join(base, "ws2"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := NewSet([]Declaration{{Name: "w", Path: test.workspace, ReadOnly: true}}, stateDir(filepath.Join(base, "state")), Private{Name: "policy.dir", Path: test.private})
			if test.says == "" {
				if err != nil {
					t.Errorf("apart, and still refused: %v", err)
				}
				return
			}
			var refused *reason.Error
			if !errors.As(err, &refused) || refused.Code != reason.ConfigInvalid || !strings.Contains(refused.Message, test.says+" policy.dir") || !strings.Contains(refused.NextStep(), "policy.dir") {
				t.Errorf("got %v, want it to say %q", err, test.says)
			}
		})
	}
}

func TestNewSetRefusesABundle(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	bundle := []Declaration{{Name: "w", Path: base, ReadOnly: true}}
	write(t, filepath.Join(base, "key.pem"), "")
	if _, err := NewSet(bundle); err != nil {
		t.Errorf("a key alone is no bundle: %v", err)
	}
	write(t, filepath.Join(base, "endpoint"), "")
	for _, name := range []string{"cert.pem", "token"} {
		other := t.TempDir()
		write(t, filepath.Join(other, name), "")
		write(t, filepath.Join(other, "endpoint"), "")
		if _, err := NewSet([]Declaration{{Name: "w", Path: other}}); reason.Of(err) != reason.ConfigInvalid {
			t.Errorf("a bundle with %s is accepted: %v", name, err)
		}
	}
	if _, err := NewSet(bundle); reason.Of(err) != reason.ConfigInvalid || !strings.Contains(err.Error(), "credential bundle") {
		t.Errorf("a bundle is accepted: %v", err)
	}
}
