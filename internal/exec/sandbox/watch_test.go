package sandbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
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
	probes int
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
	m.probes++
	m.mu.Unlock()
	return sandbox.Status{Rung: sandbox.Full}.Tried(sandbox.Report{Applied: []string{"mask"}}, m.failure())
}

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
		if m.probes > 25 {
			t.Errorf("%d probes in an hour", m.probes)
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
		probes := m.probes
		m.set(reason.Errorf(reason.BindingMismatch, "another program"))
		_, _ = w.Run(ctx, sandbox.Spec{})
		synctest.Wait()
		if !w.Status().Available || m.probes != probes || log.Len() != 0 {
			t.Errorf("%+v, %d probes, log %q", w.Status(), m.probes, log)
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
