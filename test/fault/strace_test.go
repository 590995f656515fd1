//go:build linux

package fault

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// diskErrors lists the errors of failing system calls.
var diskErrors = []string{"EIO", "ENOSPC"}

// TestDiskFailsAtTheStart fails each system call of the first start in turn. palyrad either
// works correctly, or exits and prints the next step. The next start always succeeds.
func TestDiskFailsAtTheStart(t *testing.T) {
	t.Parallel()
	canTrace(t)
	for _, c := range []struct {
		calls string
		when  []int
	}{
		{"write", []int{1, 2, 3, 5, 7, 11}},
		{"pwrite64", []int{1, 2, 4, 5, 13, 14, 70, 120, 200, 240}},
		{"fsync", []int{1, 2, 5, 10, 12, 13, 14, 16, 18, 20, 22, 26, 30}},
		{"renameat", []int{1, 5, 6, 7, 9}},
		{"ftruncate", []int{1, 2}},
		{"unlinkat,unlink", []int{1, 2}},
	} {
		t.Run(c.calls, func(t *testing.T) {
			t.Parallel()
			went := 0
			for i, n := range c.when {
				if failAtStart(t, c.calls, n, diskErrors[i%len(diskErrors)]) {
					went++
				}
			}
			t.Logf("%d of %d starts went on", went, len(c.when))
		})
	}
}

// failAtStart fails the n-th of the calls, in any thread, and reports whether palyrad became
// ready.
func failAtStart(t *testing.T, calls string, n int, errno string) (went bool) {
	t.Helper()
	d := prepare(t)
	defer d.Kill()
	what := fmt.Sprintf("%s number %d fails with %s", calls, n, errno)
	// The count is per thread; palyrad has few threads at its start.
	d.Wrap = traced(calls, fmt.Sprintf("error=%s:when=%d", errno, n))
	d.Launch()
	var told []reply
	if went = d.awaitServing(); went {
		told = append(told, d.dial().patch(t.Context(), "first"), d.dial().write(t.Context(), "second", true))
		d.Kill()
	} else if d.Wait(d.T).Code == 0 || calls != "write" && !strings.Contains(d.Log().String(), "\nnext: ") {
		// The failing write may be the one that prints the next step.
		t.Errorf("%s: palyrad does not say what to do:\n%s", what, d.Log())
	}
	d.Wrap = nil
	d.Launch()
	if !d.AwaitReady() {
		t.Fatalf("%s: the next start fails:\n%s", what, d.Log())
	}
	c := d.dial()
	succeeded(t, c.patch(t.Context(), "after"))
	c.transport.CloseIdleConnections()
	d.Stop()
	d.holds(told)
	return went
}

// TestDiskFailsUnderLoad makes system calls of a palyrad fail while clients call, ends the
// faults, and compares the clients' replies with the journal.
func TestDiskFailsUnderLoad(t *testing.T) {
	t.Parallel()
	canTrace(t)
	for _, c := range []struct {
		name, calls, injection string
		// paths limits the faults to files of the state directory.
		paths []string
		// bites is false if calls must not be affected.
		bites bool
	}{
		{"every third sync of the journal", "fsync", "error=EIO:when=3+3", []string{"palyra.db-wal"}, true},
		{"every sync of the journal", "fsync", "error=EIO", []string{"palyra.db-wal"}, true},
		{"every seventh write of the journal", "pwrite64", "error=ENOSPC:when=7+7", []string{"palyra.db-wal"}, true},
		{"every write of the journal", "pwrite64", "error=EIO", []string{"palyra.db-wal"}, true},
		{"every write and sync of the file itself", "pwrite64,fsync", "error=EIO", []string{"palyra.db"}, false},
		{"every write of the head file", "pwrite64", "error=EIO", []string{"palyra.db-head"}, true},
		{"every fifth sync of anything", "fsync", "error=EIO:when=5+5", nil, true},
		{"every second rename", "renameat,renameat2", "error=EIO:when=2+2", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			l := d.begin(4, "load")
			l.ran(t, 10)
			paths := slices.Clone(c.paths)
			for i := range paths {
				paths[i] = filepath.Join(d.State, paths[i])
			}
			heal := d.inject(c.calls, c.injection, paths...)
			l.ran(t, l.made.Load()+60)
			heal()
			must.Eventually(t, "the gateway is ready again", func() (bool, string) {
				code, text := d.readyz()
				return code == 200, text
			})
			l.ran(t, l.made.Load()+20)
			told := l.end()
			if got := codes(told); len(got) > 1 || len(got) == 1 && got[0] != "JOURNAL_UNAVAILABLE" {
				t.Errorf("calls failed with %q", got)
			}
			// Calls that ran while their end could not be written get an end at the next start.
			d.Kill()
			d.Start()
			d.Stop()
			d.holds(told)
			if n := failures(told); (n > 0) != c.bites {
				t.Errorf("%d of %d calls failed; that some do is expected: %v", n, len(told), c.bites)
			}
		})
	}
}

func failures(replies []reply) (n int) {
	for _, r := range replies {
		if r.err != nil || r.outcome != "succeeded" {
			n++
		}
	}
	return n
}

var attached = regexp.MustCompile(`attached|Process \d+`)

// inject attaches an strace to the running palyrad that makes system calls fail, until heal is
// called.
func (d *daemon) inject(calls, injection string, paths ...string) (heal func()) {
	d.T.Helper()
	line := traced(calls, injection, paths...)
	line = append(slices.DeleteFunc(line, func(a string) bool { return a == "-qq" || a == "-D" }), "-p", fmt.Sprint(d.Cmd.Process.Pid))
	cmd := exec.Command(line[0], line[1:]...)
	said, ended := process.NewOutput(), make(chan struct{})
	cmd.Stderr = said
	must.Do(d.T, cmd.Start())
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	stop := func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(must.Patience):
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	d.T.Cleanup(stop)
	if said.Await(attached, ended) == nil {
		d.T.Fatalf("strace did not attach: %s", said)
	}
	return stop
}
