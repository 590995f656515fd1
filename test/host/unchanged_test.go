//go:build linux

package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/must"
)

// TestUnchanged runs commands between the two looks at a made tree: what each
// changes is named and fails, whatever the command itself came to, and one that
// changes nothing keeps its own exit code.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, command string
		code          int
		names         []string
	}{
		{"nothing", "true", 0, nil},
		{"read", "cat etc/passwd etc/dir/file >/dev/null", 0, nil},
		{"written with the same", "cp etc/passwd copy; cat copy >etc/passwd", 0, nil},
		{"made and gone again", "touch etc/new; rm etc/new", 0, nil},
		{"a failure of its own", "exit 7", 7, nil},

		{"content", "echo x >>etc/passwd", 1, []string{"etc/passwd"}},
		{"content, and it fails", "echo x >>etc/passwd; exit 7", 1, []string{"etc/passwd"}},
		{"content, and it is killed", "echo x >>etc/passwd; kill -9 $$", 1, []string{"etc/passwd"}},
		{"through a link", "ln -s etc/passwd link; echo x >link", 1, []string{"etc/passwd"}},
		{"two", "echo x >>etc/passwd; rm etc/dir/file", 1, []string{"etc/dir/file", "etc/passwd"}},
		{"new", "touch etc/dir/new", 1, []string{"etc/dir/new"}},
		{"a name with a space", "touch 'etc/a b'", 1, []string{"etc/a b"}},
		{"gone", "rm -r etc/dir", 1, []string{"etc/dir", "etc/dir/file"}},
		{"mode", "chmod 600 etc/passwd", 1, []string{"etc/passwd"}},
		{"kind", "rm etc/passwd; mkdir etc/passwd", 1, []string{"etc/passwd"}},
		{"a link elsewhere", "ln -sfn passwd etc/link", 1, []string{"etc/link"}},
		{"null is a file", "rm null; touch null", 1, []string{"null"}},
		{"null is gone", "rm null", 1, []string{"null"}},
		{"null is another device", "ln -sfn /dev/zero null", 1, []string{"null"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := made(t)
			code, said := unchanged(t, dir, c.command)
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, said)
			}
			if len(c.names) == 0 && said != "" {
				t.Errorf("it says %q", said)
			}
			for _, name := range c.names {
				if !strings.Contains(said, filepath.Join(dir, name)) {
					t.Errorf("%s is not named: %s", name, said)
				}
			}
			if changed := strings.Count(said, "\n  "); len(c.names) > 0 && c.names[0] != "null" && changed != len(c.names) {
				t.Errorf("%d entries are named, want %q: %s", changed, c.names, said)
			}
		})
	}
}

// TestUnreadable: an ordinary user's look leaves out what it may not read.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	dir := made(t)
	must.Do(t, os.Chmod(filepath.Join(dir, "etc/dir"), 0))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "etc/dir"), 0o700) })
	if code, said := unchanged(t, dir, "true"); code != 0 || said != "" {
		t.Errorf("exit code %d: %s", code, said)
	}
}

// made is a tree that looks like what the script looks at. Its null is a link:
// only root may make devices.
func made(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, errors.Join(
		os.MkdirAll(filepath.Join(dir, "etc/dir"), 0o755),
		os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte("root\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "etc/dir/file"), []byte("x\n"), 0o644),
		os.Symlink("dir", filepath.Join(dir, "etc/link")),
		os.Symlink("/dev/null", filepath.Join(dir, "null")),
	))
	return dir
}

// unchanged runs a command of the shell in dir under the script.
func unchanged(t *testing.T, dir, command string) (code int, said string) {
	t.Helper()
	script := must.Get(filepath.Abs("../../scripts/host-unchanged.sh"))(t)
	cmd := exec.CommandContext(t.Context(), script, "sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOST_ETC="+filepath.Join(dir, "etc"), "HOST_NULL="+filepath.Join(dir, "null"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}
