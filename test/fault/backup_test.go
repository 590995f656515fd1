//go:build linux

package fault

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// within runs palyrad with a disk of the given size mounted at dir. It returns the result and
// the files left on that disk.
func (d *daemon) within(dir, size string, args ...string) (process.Result, string) {
	d.T.Helper()
	line := append(inNamespace(d.T, dir, size), "sh", "-c", `"$@"; code=$?; echo left: $(ls -A "$0"); exit $code`, dir, d.Program)
	cmd := exec.CommandContext(d.T.Context(), line[0], append(line[1:], args...)...)
	cmd.Env = process.Environment(d.Dir)
	r := process.Finish(d.T, cmd)
	_, left, _ := strings.Cut(r.Out, "left:")
	return r, strings.TrimSpace(left)
}

// TestBackupOnAFullDisk: a backup or a restore without enough disk space leaves no files
// behind. With enough space, both succeed.
func TestBackupOnAFullDisk(t *testing.T) {
	t.Parallel()
	d := prepare(t)
	d.Start()
	d.Stop()
	id := must.Get(age.GenerateX25519Identity())(t)
	identity := filepath.Join(t.TempDir(), "identity")
	must.Write(t, identity, id.String()+"\n")
	disk := filepath.Join(d.Dir, "disk")
	must.Do(t, os.Mkdir(disk, 0o700))

	backUp := []string{"backup", filepath.Join(disk, "b.age"), "--config", d.Config, "--recipient", id.Recipient().String()}
	r, left := d.within(disk, "64k", backUp...)
	if r.Code == 0 || left != "" || !strings.Contains(r.Err, "no space left") {
		t.Errorf("a backup without room: exit code %d, left %q\n%s", r.Code, left, r.Err)
	}
	if r, left = d.within(disk, "64m", backUp...); r.Code != 0 || left != "b.age" {
		t.Errorf("a backup with room: exit code %d, left %q\n%s", r.Code, left, r.Err)
	}
	if _, err := os.Lstat(filepath.Join(d.State, "backup.tmp")); err == nil {
		t.Error("the copy of the store was left")
	}

	file := filepath.Join(d.Dir, "b.age")
	backUp[1] = file
	whole := exec.CommandContext(t.Context(), d.Program, backUp...)
	whole.Env = process.Environment(d.Dir)
	process.Finish(t, whole).Want(t, 0)
	restore := []string{"restore", file, "--to", filepath.Join(disk, "state"), "--identity", identity}
	if r, left = d.within(disk, "128k", restore...); r.Code == 0 || left != "" || !strings.Contains(r.Err, "no space left") {
		t.Errorf("a restore without room: exit code %d, left %q\n%s", r.Code, left, r.Err)
	}
	if r, left = d.within(disk, "64m", restore...); r.Code != 0 || left != "state" {
		t.Errorf("a restore with room: exit code %d, left %q\n%s", r.Code, left, r.Err)
	}
}
