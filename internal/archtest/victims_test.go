package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"palyra/internal/core/must"
)

// TestScripts applies the rule of CheckVictims to the scripts that are files. At least one file of
// each kind must exist, to detect that the walk skips a kind.
func TestScripts(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{".sh": false, ".py": false, ".mjs": false, ".cjs": false, ".txtar": false}
	for _, top := range []string{"cmd", "internal", "test"} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(name string, d fs.DirEntry, err error) error {
			if _, ok := seen[filepath.Ext(name)]; err != nil || d.IsDir() || !ok {
				return err
			}
			seen[filepath.Ext(name)] = true
			text, err := os.ReadFile(name)
			for _, path := range ScriptVictims(string(text)) {
				t.Errorf("%s writes to %s of the machine; give it a canary that the test made", name, path)
			}
			return err
		})
		must.Do(t, err)
	}
	for kind, found := range seen {
		if !found {
			t.Errorf("no file is of the kind %s", kind)
		}
	}
}

// TestScriptVictims has further forms of scripts, for which separate broken trees would be too
// long.
func TestScriptVictims(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		want   []string
	}{
		{"rm -f /tmp/x /etc/passwd '/usr/x'", []string{"/etc/passwd", "/usr/x"}},
		{"echo x>|/etc/passwd", []string{"/etc/passwd"}},
		{"echo x 2>>/etc/passwd; true", []string{"/etc/passwd"}},
		{"(ln /etc/passwd l)", []string{"/etc/passwd"}},
		{"truncate -s0 /", []string{"/"}},
		{"tee -a /var/lib/x", []string{"/var/lib/x"}},
		{"cp a '/etc/passwd'; true", []string{"/etc/passwd"}},
		{"fs.writeFileSync('/etc/passwd', x)", []string{"/etc/passwd"}},
		{"with open(\"/etc/passwd\", 'r+b') as f", []string{"/etc/passwd"}},
		{"shutil.rmtree('/home')", []string{"/home"}},

		{"cp /etc/passwd mine", nil},
		{"cat </etc/passwd >mine 2>/dev/null", nil},
		{"open('/etc/passwd').read()", nil},
		{"rm -r etc/passwd ./usr", nil},
		{"os.readlink('/proc/1/exe')", nil},
		{"echo x >/var/tmp/y; touch /tmp/etc/z", nil},
	} {
		got := ScriptVictims(c.script)
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q writes to %q, want %q", c.script, got, c.want)
		}
	}
}
