//go:build linux

package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// imported maps the names of the imported secrets to their values.
var imported = map[string]string{"one": marked + " import 1", "two": marked + " import 2"}

// palyra runs a command of the local operator, with a command prefix, and waits until it exits.
func (d *daemon) palyra(wrap []string, args ...string) process.Result {
	d.T.Helper()
	r := d.wrapped(wrap, "palyra", args...)
	d.Note(r)
	return r
}

// TestVaultImportKilled kills `palyra vault import`, and then its --undo, at each system call
// that changes a file. The next run of the same command completes: the vault has every value,
// or the configuration is byte-identical to the original.
func TestVaultImportKilled(t *testing.T) {
	t.Parallel()
	canTrace(t)
	d := prepare(t)
	settings := string(must.Get(os.ReadFile(d.Config))(t))
	for name, value := range imported {
		must.Write(t, filepath.Join(d.Dir, name), value+"\n")
		settings += fmt.Sprintf("[[secrets]]\nname = %q\nfile = \"~/%s\"\nhosts = [\"%s.test:443\"]\n", name, name, name)
	}
	must.Write(t, d.Config, settings)
	d.Start()
	v := d.secretsOf()
	kills := 0
	for _, c := range []struct {
		calls string
		most  int
	}{{"fsync", 5}, {"renameat", 3}, {"linkat,unlinkat", 4}} {
		for n := 1; n <= c.most; n++ {
			at := fmt.Sprintf("%s number %d", c.calls, n)
			wrap := traced(c.calls, fmt.Sprintf("signal=SIGKILL:when=%d", n))
			killed := d.palyra(wrap, "vault", "import").Code != 0
			if killed {
				kills++
				d.palyra(nil, "vault", "import").Want(t, 0)
			}
			if text := string(must.Get(os.ReadFile(d.Config))(t)); strings.Contains(text, "[[secrets]]") {
				t.Fatalf("after a kill at %s the import ended with\n%s", at, text)
			}
			for name, want := range imported {
				if value, err := reveal(t.Context(), v, name); err != nil || value != want {
					t.Errorf("after a kill at %s %s is %q, %v", at, name, value, err)
				}
			}
			if d.palyra(wrap, "vault", "import", "--undo").Code != 0 {
				killed = true
				kills++
				d.undone()
			}
			if text := string(must.Get(os.ReadFile(d.Config))(t)); text != settings {
				t.Fatalf("undone after a kill at %s, the configuration is\n%s", at, text)
			}
			for name := range imported {
				if _, err := reveal(t.Context(), v, name); connect.CodeOf(err) != connect.CodeNotFound {
					t.Errorf("undone after a kill at %s, the vault answers for %s with %v", at, name, err)
				}
			}
			left := must.Get(filepath.Glob(d.Config + ".*"))(t)
			if len(left) > 0 {
				t.Errorf("undone after a kill at %s, there is %q", at, left)
			}
			if !killed {
				break
			}
		}
	}
	if kills < 10 {
		t.Errorf("%d kills only", kills)
	}
	t.Logf("%d kills", kills)
	d.Stop()
}

// undone repeats an --undo that was killed, possibly after its end.
func (d *daemon) undone() {
	d.T.Helper()
	if _, err := os.Lstat(d.Config + ".import.json"); err == nil {
		d.palyra(nil, "vault", "import", "--undo").Want(d.T, 0)
	}
}
