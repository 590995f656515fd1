package bubblewrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/needs"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// smallDisk, if set, makes this binary run programs with their layers on a small disk. Its value
// is a diskOrder as JSON. The disk is a tmpfs in the mount namespace of the process, so that no
// other program uses it.
const smallDisk = "TEST_PALYRA_SMALL_DISK"

// diskOrder is the input of that process.
type diskOrder struct {
	Disk string
	// Specs run at the same time, on the workspace that the process makes on the disk.
	Specs []sandbox.Spec
}

// diskResult is the output of that process.
type diskResult struct {
	Reports []sandbox.Report
	// Written is the number of durable writes to the disk during the runs, and Refused is the error
	// of one.
	Written int
	Refused string
}

func smallDiskMain() int {
	var o diskOrder
	helper, err := jailtest.Helper()
	if err = errors.Join(err, json.Unmarshal([]byte(os.Getenv(smallDisk)), &o)); err == nil {
		err = onSmallDisk(helper, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func onSmallDisk(helper []byte, o diskOrder) (err error) {
	workspace := filepath.Join(o.Disk, "workspace")
	r, err := newRunner(testConfig(o.Disk), helper)
	if err = errors.Join(err, os.Mkdir(workspace, 0o700)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	result := diskResult{Reports: make([]sandbox.Report, len(o.Specs))}
	failed := make([]error, len(o.Specs))
	ctx, cancel := context.WithCancel(context.Background())
	var runs, journal sync.WaitGroup
	for i, s := range o.Specs {
		s.WorkspaceRoot = workspace
		runs.Go(func() {
			report, err := r.Run(context.Background(), s)
			failed[i] = errors.Join(err, report.Layer.Close())
			report.Layer = nil
			result.Reports[i] = report
		})
	}
	journal.Go(func() { result.Written, err = appendDurably(ctx, filepath.Join(o.Disk, "journal")) })
	runs.Wait()
	cancel()
	journal.Wait()
	if err != nil {
		result.Refused = err.Error()
	}
	return errors.Join(append(failed, json.NewEncoder(os.Stdout).Encode(result))...)
}

// appendDurably appends to a file until ctx ends, like the daemon's journal.
func appendDurably(ctx context.Context, name string) (written int, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for entry := make([]byte, 4096); ; written++ {
		select {
		case <-ctx.Done():
			return written, nil
		case <-tick.C:
		}
		if _, err := f.Write(entry); err != nil {
			return written, err
		}
		if err := f.Sync(); err != nil {
			return written, err
		}
	}
}

// runOnSmallDisk runs scripts at the same time on a disk of a size in MiB.
func runOnSmallDisk(t *testing.T, mode sandbox.WorkspaceMode, size int, limit int64, scripts ...string) diskResult {
	t.Helper()
	o := diskOrder{Disk: jailtest.Dir(t)}
	for _, script := range scripts {
		s := jailtest.Spec(t, o.Disk, "python3", "-c", script)
		s.Workspace, s.Limits.Disk, s.Limits.FileSize = mode, limit, 1<<40
		o.Specs = append(o.Specs, s)
	}
	cmd := jailtest.Again(t, smallDisk, o)
	// The process is an ordinary user, so that its programs have no quota by a control group.
	mount := fmt.Sprintf("mount -t tmpfs -o size=%dm,mode=0777 disk %s && exec setpriv --reuid %d --regid %[3]d --clear-groups %s", size, o.Disk, jailtest.User, cmd.Path)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", mount}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	var result diskResult
	jailtest.Answer(t, cmd, &result)
	return result
}

func needsOwnDisk(t *testing.T) {
	t.Helper()
	needs.Sandbox(t)
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a disk for an ordinary user")
	}
}

// removed writes ten files of 32 MiB and removes each one. What keeps the file open is inserted.
const removed = `import mmap, os, socket, time
a, b = socket.socketpair()
kept = []
for i in range(10):
    f = open("f%%d" %% i, "wb+")
    for _ in range(32):
        f.write(bytes(1 << 20))
    f.flush()
    os.unlink(f.name)
    %s
end = time.monotonic() + %s
while time.monotonic() < end:
    open("g", "wb").write(b"x" * 4096)
    time.sleep(0.05)
`

// TestRemovedFilesCount: files that a program has removed count towards its disk limit while it
// keeps them, by a descriptor, in a message of a socket, or by a mapping.
func TestRemovedFilesCount(t *testing.T) {
	t.Parallel()
	needsOwnDisk(t)
	const long = "60"
	for name, c := range map[string]struct {
		keep, wait string
		want       sandbox.Quota
	}{
		"open":              {"kept.append(f)", long, sandbox.QuotaDisk},
		"sent":              {"socket.send_fds(a, [b'x'], [f.fileno()]); f.close()", long, sandbox.QuotaDisk},
		"mapped":            {"kept.append(mmap.mmap(f.fileno(), 4096)); f.close()", long, sandbox.QuotaDisk},
		"closed, a control": {"f.close()", "1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runOnSmallDisk(t, sandbox.CopyOnWrite, 1024, 64<<20, fmt.Sprintf(removed, c.keep, c.wait)).Reports[0]
			if got.Quota != c.want || c.want == "" && (got.ExitCode == nil || *got.ExitCode != 0) {
				t.Errorf("%s: %s", jailtest.Ending(got), got.Stderr.Head)
			}
		})
	}
}

// fillDisk fills the disk with files, half of them without a name.
const fillDisk = `import os
kept, chunk, own = [], bytes(4 << 20), os.urandom(8).hex()
for i in range(1 << 20):
    f = open(own + str(i), "wb")
    kept.append(f)
    if i % 2:
        os.unlink(f.name)
    for _ in range(8):
        f.write(chunk)
    f.flush()
`

// honest writes little, until the disk has been filled and is free again.
const honest = `import os, time
def free():
    s = os.statvfs(".")
    return s.f_bavail / s.f_blocks
open("own", "wb").write(bytes(4096))
while free() > 0.5:
    time.sleep(0.001)
while free() < 0.5:
    time.sleep(0.001)
open("own", "ab").write(bytes(4096))
`

// TestFullDiskEndsItsWriters: two programs that fill the disk in a loop are ended. Another program
// and the writes of the journal do not notice.
func TestFullDiskEndsItsWriters(t *testing.T) {
	t.Parallel()
	needsOwnDisk(t)
	for _, mode := range []sandbox.WorkspaceMode{sandbox.CopyOnWrite, sandbox.Direct} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			fill := fillDisk
			if mode == sandbox.Direct {
				// The files stay on the disk when their program has ended.
				fill = strings.ReplaceAll(fillDisk, "if i % 2:", "if True:")
			}
			got := runOnSmallDisk(t, mode, 1024, 1<<40, fill, fill, honest)
			for i, want := range []sandbox.Quota{sandbox.QuotaDisk, sandbox.QuotaDisk, ""} {
				if r := got.Reports[i]; r.Quota != want {
					t.Errorf("program %d: %s, want quota %q: %s", i, jailtest.Ending(r), want, r.Stderr.Head)
				}
			}
			if code := got.Reports[2].ExitCode; code == nil || *code != 0 {
				t.Errorf("the honest program: %s", jailtest.Ending(got.Reports[2]))
			}
			if got.Refused != "" || got.Written < 20 {
				t.Errorf("%d durable writes, then: %s", got.Written, got.Refused)
			}
		})
	}
}
