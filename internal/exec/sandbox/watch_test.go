package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox"
)

// machine is a backend whose status the test sets.
type machine struct {
	sandbox.Backend
	mu     sync.Mutex
	broken error
	// times are the times of the probes.
	times []time.Time
}

func (m *machine) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = err
}

func (m *machine) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.broken
}

func (m *machine) Run(context.Context, sandbox.Spec) (sandbox.Report, error) {
	return sandbox.Report{}, m.failure()
}

func (m *machine) Probe(context.Context) sandbox.Status {
	m.mu.Lock()
	m.times = append(m.times, time.Now())
	m.mu.Unlock()
	return sandbox.Status{Rung: sandbox.Full}.Tried(sandbox.Report{Applied: []string{"mask"}}, m.failure())
}

// probed returns the times of the probes.
func (m *machine) probed() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.times)
}

func (*machine) Close() error { return nil }

func watched(t *testing.T, m *machine) (*sandbox.Watch, *bytes.Buffer) {
	t.Helper()
	chosen := must.Get(sandbox.Choose(t.Context(), []sandbox.Step{
		{Rung: sandbox.Full, Open: func() (sandbox.Backend, error) { return m, nil }},
	}, sandbox.Full))(t)
	var log bytes.Buffer
	return chosen.Watch(slog.New(slog.NewTextHandler(&log, nil))), &log
}

// The status follows the machine's state in both directions, and the log names the layer and
// the file.
func TestStatusFollowsTheMachine(t *testing.T) {
	t.Parallel()
	broken := sandbox.Unbuilt("proc_masks", "/dev/null", "it is a regular file").WithRemedy("mend it")
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		w, log := watched(t, m)
		ctx, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { _ = w.Follow(ctx) })
		synctest.Wait()

		m.set(broken)
		if !w.Status().Available {
			t.Fatal("the status changed before anybody looked")
		}
		before := time.Now()
		if _, err := w.Run(ctx, sandbox.Spec{}); reason.Of(err) != reason.SandboxUnavailable {
			t.Fatalf("got %v", err)
		}
		synctest.Wait()
		if st := w.Status(); st.Available || st.Layer != "proc_masks" || st.File != "/dev/null" || st.Remedy != "mend it" || time.Since(before) != 0 {
			t.Errorf("after a failed call the status is %+v, %s later", st, time.Since(before))
		}
		for _, text := range []string{"level=WARN", "layer=proc_masks", "file=/dev/null", "it is a regular file", "mend it"} {
			if !strings.Contains(log.String(), text) {
				t.Errorf("the log does not say %q:\n%s", text, log)
			}
		}
		said := strings.Count(log.String(), "sandboxes fail")
		time.Sleep(time.Hour)
		synctest.Wait()
		if again := strings.Count(log.String(), "sandboxes fail"); said != 1 || again != 1 {
			t.Errorf("the same problem was logged %d and then %d times", said, again)
		}
		if probes := len(m.probed()); probes < 60 || probes > 70 {
			t.Errorf("%d probes in an hour, want about one a minute", probes)
		}

		m.set(nil)
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if !w.Status().Available || !strings.Contains(log.String(), "programs can run again") {
			t.Errorf("the machine works again, and the status is %+v", w.Status())
		}
		// A machine that fails between calls is detected as well.
		m.set(broken)
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if w.Status().Available {
			t.Error("nobody noticed that sandboxes fail")
		}
		stop()
		ended.Wait()
	})
}

// Control: a call that fails for another reason triggers no probe.
func TestFailedCallTriggersNoProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		w, log := watched(t, m)
		ctx, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { _ = w.Follow(ctx) })
		probes := len(m.probed())
		m.set(reason.Errorf(reason.BindingMismatch, "another program"))
		_, _ = w.Run(ctx, sandbox.Spec{})
		synctest.Wait()
		if !w.Status().Available || len(m.probed()) != probes || log.Len() != 0 {
			t.Errorf("%+v, %d probes, log %q", w.Status(), len(m.probed()), log)
		}
		stop()
		ended.Wait()
	})
}

// A rung that the settings do not allow stays unavailable after any number of probes.
func TestForbiddenLevelStaysRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		low := &lowRung{}
		chosen := must.Get(sandbox.Choose(t.Context(), []sandbox.Step{
			{Rung: sandbox.Full, Open: func() (sandbox.Backend, error) { return low, nil }},
		}, sandbox.Full))(t)
		w := chosen.Watch(slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { _ = w.Follow(ctx) })
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.Status().Available {
			t.Error("a rung that the settings do not allow became available")
		}
		stop()
		ended.Wait()
	})
}

type lowRung struct{ sandbox.Backend }

func (*lowRung) Probe(context.Context) sandbox.Status {
	return sandbox.Status{Available: true, Rung: sandbox.Landlocked}
}

// shortage is an error of a backend on a machine whose limit of processes is reached.
func shortage() error {
	return reason.Errorf(reason.SandboxUnavailable, "starting the sandbox: %w", syscall.EAGAIN)
}

// TestPassingFailureRefusesNoCall: a probe or a call that fails for a passing reason leaves the
// measured status as it is. Probes are repeated after 5 s, at growing intervals up to 60 s. The
// control is a failure that does not pass.
func TestPassingFailureRefusesNoCall(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		broken    error
		available bool
	}{
		"a shortage":              {shortage(), true},
		"control: a missing part": {reason.Errorf(reason.SandboxUnavailable, "bubblewrap is not installed"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := &machine{}
				w, _ := watched(t, m)
				ctx, stop := context.WithCancel(t.Context())
				var ended sync.WaitGroup
				ended.Go(func() { _ = w.Follow(ctx) })
				m.set(row.broken)
				time.Sleep(5 * time.Minute) // the next regular probe
				synctest.Wait()
				if st := w.Status(); st.Available != row.available || st.Passing || row.available && !slices.Contains(st.Layers, "mask") {
					t.Errorf("after a failed probe the status is %+v", st)
				}
				first := len(m.probed())
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				var waits []time.Duration
				times := m.probed()
				for i := first; i < len(times); i++ {
					waits = append(waits, times[i].Sub(times[i-1]))
				}
				want := []time.Duration{5, 10, 20, 40, 60, 60, 60}
				for i := range want {
					want[i] *= time.Second
				}
				if !slices.Equal(waits, want) {
					t.Errorf("the intervals of the probes are %v, want %v", waits, want)
				}
				probes := len(times)
				_, _ = w.Run(ctx, sandbox.Spec{})
				synctest.Wait()
				if probed := len(m.probed()) != probes; probed == row.available || w.Status().Available != row.available {
					t.Errorf("after a failed call: a probe %t, the status %+v", probed, w.Status())
				}
				stop()
				ended.Wait()
			})
		})
	}
}

// TestShortageAtStart: a shortage while palyrad starts neither lowers the rung nor refuses later
// calls: the next call is judged by a probe of its own. The control is a failure that does not
// pass.
func TestShortageAtStart(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		broken error
		want   sandbox.Isolation
	}{
		{"a shortage", shortage(), sandbox.Full},
		{"control: a missing part", reason.Errorf(reason.SandboxUnavailable, "bubblewrap is not installed"), sandbox.Landlocked},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := &machine{broken: row.broken}
			lower := &lowRung{}
			chosen := must.Get(sandbox.Choose(t.Context(), []sandbox.Step{
				{Rung: sandbox.Full, Open: func() (sandbox.Backend, error) { return m, nil }},
				{Rung: sandbox.UserNamespaces, Open: func() (sandbox.Backend, error) { return lower, nil }},
			}, sandbox.Landlocked))(t)
			if chosen.Status.Rung != row.want || chosen.Status.Available == chosen.Status.Passing {
				t.Fatalf("chose %+v", chosen.Status)
			}
			w := chosen.Watch(slog.New(slog.DiscardHandler))
			if row.want == sandbox.Full && w.Status().Available {
				t.Error("a sandbox is available during the shortage")
			}
			m.set(nil)
			if st := w.Status(); !st.Available || st.Rung != row.want {
				t.Errorf("after the shortage the status is %+v", st)
			}
		})
	}
}

// TestShortages: a passing failure is an error of the call, with its own next step. Other errors
// and runs whose program started are returned as they are.
func TestShortages(t *testing.T) {
	t.Parallel()
	zero := 0
	for _, row := range []struct {
		name   string
		report sandbox.Report
		err    error
		next   string
	}{
		{"processes", sandbox.Report{}, fmt.Errorf("fork/exec: %w", syscall.EAGAIN), "ulimit -u"},
		{"memory", sandbox.Report{}, syscall.ENOMEM, "max_concurrent"},
		{"space", sandbox.Report{}, reason.Errorf(reason.SandboxUnavailable, "x: %w", syscall.ENOSPC).WithRemedy("Use a newer kernel."), "user.max_user_namespaces"},
		{"references", sandbox.Report{}, syscall.ETOOMANYREFS, "in flight"},
		{"files", sandbox.Report{}, &os.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, "LimitNOFILE"},
		{"files of the machine", sandbox.Report{}, syscall.ENFILE, "fs.file-max"},
		{"joined", sandbox.Report{}, errors.Join(reason.Errorf(reason.SandboxUnavailable, "x"), syscall.EAGAIN), "ulimit -u"},
		{"control: another error", sandbox.Report{}, syscall.EPERM, ""},
		{"control: another reason", sandbox.Report{}, reason.Errorf(reason.Cancelled, "x: %w", syscall.EAGAIN), ""},
		{"control: the program ran", sandbox.Report{ExitCode: &zero}, syscall.ENOSPC, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := row.report.Explain(row.err)
			var refused *reason.Error
			if row.next == "" {
				if reason.Of(got) != reason.Of(row.err) || got.Error() != row.err.Error() {
					t.Errorf("%v became %v", row.err, got)
				}
				return
			}
			if !errors.As(got, &refused) || refused.Code != reason.SandboxUnavailable || !strings.Contains(refused.NextStep(), row.next) || !sandbox.Passing(got) {
				t.Errorf("got %v, next %q", got, refused.NextStep())
			}
		})
	}
}
