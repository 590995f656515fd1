package calls_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
)

// An edit must have the displayed digest; with another digest it is refused.
func TestEdit(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "edited.json")
	must.Do(t, os.WriteFile(file, []byte(`{ "argv": ["git", "status"], "workspace": "demo" }`), 0o600))
	digest := clitest.SomeApproval().GetCallDigest()
	for name, c := range map[string]struct {
		args    []string
		code    int
		changed bool
	}{
		"with the digest": {[]string{"--input", file, "--digest", digest, "--reason", "look first"}, 0, true},
		"without":         {[]string{"--input", file}, 2, false},
		"another digest":  {[]string{"--input", file, "--digest", "sha256:" + strings.Repeat("0", 64)}, 7, false},
		"without input":   {[]string{"--digest", digest}, 2, false},
		"no such file":    {[]string{"--input", file + "x", "--digest", digest}, 2, false},
	} {
		w := clitest.NewWorld(t)
		w.Pending()
		r := w.Run(append([]string{"approvals", "edit", clitest.ApprovalID}, c.args...)...)
		w.Want(r, c.code)
		v := w.Gateway.Approvals[clitest.ApprovalID]
		if changed := len(v.GetEdits()) == 1; changed != c.changed {
			t.Errorf("%s: %v", name, v.GetEdits())
		}
		if c.changed && (string(v.GetPrompt().GetArgumentsJson()) != `{"argv":["git","status"],"workspace":"demo"}` || !strings.Contains(r.Err, "earlier votes were discarded")) {
			t.Errorf("%s: %s, %s", name, v.GetPrompt().GetArgumentsJson(), r.Err)
		}
	}
}
