//go:build linux

package fault

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
)

// inNamespace returns a command prefix that runs a command in its own mount namespace, in which
// dir is a small disk. It skips the test if the kernel does not permit such a namespace.
func inNamespace(t *testing.T, dir, size string) []string {
	t.Helper()
	script := fmt.Sprintf("mount -t tmpfs -o size=%s,mode=0700 palyra-fault %s && exec \"$@\"", size, dir)
	for _, unshare := range [][]string{{"unshare", "--mount"}, {"unshare", "--user", "--map-root-user", "--mount"}} {
		line := append(unshare, "sh", "-c", script, "sh")
		if exec.Command(line[0], append(line[1:], "true")...).Run() == nil {
			return line
		}
	}
	if os.Geteuid() == 0 {
		t.Fatal("root can make no mount namespace: this test has to run here")
	}
	t.Skip("no mount namespace is to be had: neither root nor unprivileged user namespaces")
	return nil
}

// filler uses up the space on the daemon's disk and frees it.
type filler struct{ path string }

// fill leaves less than one page free.
func (f filler) fill(t *testing.T) {
	t.Helper()
	file := must.Get(os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))(t)
	for size := 64 << 10; size > 0; {
		n, err := file.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			if n == 0 {
				size /= 2
			}
		case err != nil:
			t.Fatal(err)
		}
	}
	must.Do(t, file.Close())
}

// take uses up n bytes.
func (f filler) take(t *testing.T, n int64) {
	t.Helper()
	must.Do(t, os.WriteFile(f.path, make([]byte, n), 0o600))
}

func (f filler) free(t *testing.T) {
	t.Helper()
	must.Do(t, os.Remove(f.path))
}

// onSmallDisk returns a palyrad whose state directory is a separate disk; the workspace is on
// another disk.
func onSmallDisk(t *testing.T, size string) (*daemon, filler) {
	t.Helper()
	return onSmallDiskWith(t, size, "")
}

// onSmallDiskWith is onSmallDisk with further settings.
func onSmallDiskWith(t *testing.T, size, settings string) (*daemon, filler) {
	t.Helper()
	d := prepare(t)
	text := must.Get(os.ReadFile(d.Config))(t)
	must.Write(t, d.Config, string(text)+settings)
	must.Do(t, os.Mkdir(d.State, 0o700))
	d.Wrap = inNamespace(t, d.State, size)
	d.Start()
	d.view = fmt.Sprintf("/proc/%d/root", d.Cmd.Process.Pid)
	return d, filler{filepath.Join(d.view, d.State, "filler")}
}

// TestFullDisk fills the disk of the journal, first by calls and then by another program, and
// frees the space again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	d, disk := onSmallDisk(t, "5m")
	c := d.dial()
	var told []reply
	for n := range 5 {
		told = append(told, c.patch(t.Context(), fmt.Sprintf("before-%d", n)))
	}
	succeeded(t, told...)
	disk.fill(t)
	// The allocated space can still hold some data.
	failed := -1
	for n := range 2000 {
		r := c.patch(t.Context(), fmt.Sprintf("full-%d", n))
		told = append(told, r)
		if r.err != nil {
			failed = n
			break
		}
	}
	if failed < 0 {
		t.Fatal("2000 calls went through on a full disk")
	}
	for n := range 3 {
		told = append(told, c.patch(t.Context(), fmt.Sprintf("refused-%d", n)), c.write(t.Context(), fmt.Sprintf("refused-too-%d", n), true))
	}
	if got := codes(told); len(got) != 1 || got[0] != "JOURNAL_UNAVAILABLE" {
		t.Errorf("the calls failed with %q", got)
	}
	if code, text := d.readyz(); code != http.StatusServiceUnavailable || !strings.Contains(text, "the journal cannot be written") {
		t.Errorf("readyz: %d %s", code, text)
	}
	st, err := c.status.GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
	if err != nil || st.GetReady() || !strings.Contains(strings.Join(st.GetProblems(), ""), "full") {
		t.Errorf("status: %v, %v", st, err)
	}

	disk.free(t)
	must.Eventually(t, "the gateway is ready again", func() (bool, string) {
		code, text := d.readyz()
		return code == http.StatusOK, text
	})
	after := c.patch(t.Context(), "after")
	succeeded(t, after)
	told = append(told, after)
	for _, file := range d.effects() {
		if strings.HasPrefix(file, "refused") {
			t.Errorf("%s was written while the journal could not be", file)
		}
	}
	d.judgeInside(told)
}

// judgeInside stops the palyrad, whose disk is unmounted with it, and judges a copy. A call
// that ran while the disk became full has no end before the next start, so a palyrad opens the
// copy first.
func (d *daemon) judgeInside(told []reply) {
	d.T.Helper()
	// The stop comes after the copy, so that the copy is in the state of a crash.
	copyDir := filepath.Join(d.Dir, "copy")
	must.Do(d.T, os.CopyFS(copyDir, stateIn(filepath.Join(d.view, d.State))))
	d.Stop()
	must.Do(d.T, os.Remove(d.State))
	must.Do(d.T, os.Rename(copyDir, d.State))
	private(d.T, d.State)
	d.Wrap, d.view = nil, ""
	if err := d.verify(); err != nil {
		d.T.Fatalf("the copy does not verify: %v", err)
	}
	d.Start()
	d.Stop()
	d.holds(told)
}

// private gives a copied state directory the file modes that palyrad requires.
func private(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if e.IsDir() {
			mode = 0o700
		}
		return os.Chmod(path, mode)
	}))
}

// TestStartOnAFullDisk: palyrad reports the missing space, leaves no partial state, and starts
// once there is enough space.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"4k", "16k", "24k", "40k", "64k", "128k", "256k"} {
		t.Run(size, func(t *testing.T) {
			t.Parallel()
			d := prepare(t)
			must.Do(t, os.Mkdir(d.State, 0o700))
			// If the source is named, a tmpfs is remounted with only these options; otherwise the
			// mount's own options include a user that an ordinary user's namespace lacks. The shell's
			// namespace outlives the first palyrad, so that the second one finds the files of the first.
			wrap := inNamespace(t, d.State, size)
			script := wrap[len(wrap)-2]
			grow := fmt.Sprintf("; mount -t tmpfs -o remount,size=8m tmpfs %s && exec \"$@\"", d.State)
			wrap[len(wrap)-2] = strings.Replace(script, "exec \"$@\"", "\"$@\"; echo first exit code $? >&2"+grow, 1)
			d.Wrap = wrap
			d.Start()
			d.view = fmt.Sprintf("/proc/%d/root", d.Cmd.Process.Pid)
			first, _, found := strings.Cut(d.Log().String(), "first exit code ")
			if !found || !strings.Contains(first, "\nnext: ") || !strings.Contains(strings.ToLower(first), "full") && !strings.Contains(first, "no space left") {
				t.Errorf("palyrad does not say what is missing:\n%s", d.Log())
			}
			succeeded(t, d.dial().patch(t.Context(), "after"))
			d.Stop()
		})
	}
}
