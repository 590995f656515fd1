//go:build linux

package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestDepsOfAnOrdinaryUser: without the right to run sudo, one line names the packages and
// apt-get does not run. Control: a user who may run sudo.
func TestDepsOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sudo string
		code       int
		want       string
	}{
		{"no sudo", "", 1, "missing: a-package; as root run: apt-get install a-package\n"},
		{"sudo refuses", "#!/bin/sh\nexit 1\n", 1, "missing: a-package; as root run: apt-get install a-package\n"},
		{"sudo", "#!/bin/sh\nexec \"$@\"\n", 0, "installing: a-package\napt-get ran\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must.Do(t, os.Chmod(filepath.Dir(dir), 0o755)) // another user must be able to read it
			for _, name := range []string{"bash", "uname", "env", "true"} {
				must.Do(t, os.Symlink(must.Get(exec.LookPath(name))(t), filepath.Join(dir, name)))
			}
			must.Do(t, os.WriteFile(filepath.Join(dir, "apt-get"), []byte("#!/bin/sh\necho apt-get ran\n"), 0o755))
			if c.sudo != "" {
				must.Do(t, os.WriteFile(filepath.Join(dir, "sudo"), []byte(c.sudo), 0o755))
			}
			args := []string{"bash", "-s", "--", "a-program-that-is-missing=a-package"}
			if os.Geteuid() == 0 {
				args = append([]string{"setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"}, args...)
			}
			script := must.Get(os.Open(repository + "/scripts/deps.sh"))(t)
			defer script.Close()
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Dir, cmd.Stdin, cmd.Env = "/", script, []string{"PATH=" + dir}
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.HasPrefix(string(out), c.want) {
				t.Errorf("exit code %d: %s", code, out)
			}
		})
	}
}
