package backup

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
)

// startRestored starts a restored directory like palyrad, and returns the events of the
// journal.
func (w *world) startRestored(reached func(string), endLogins func(context.Context, string) (int, error)) (events []journal.Event, err error) {
	w.t.Helper()
	db, log := w.open(w.target().Dir)
	defer func() { must.Check(w.t, db.Close(w.t.Context())) }()
	func() {
		defer func() {
			if recover() != nil {
				err = errors.New("killed")
			}
		}()
		_, _, err = start(w.t.Context(), Parts{
			StateDir: w.target().Dir, Journal: log, Approvals: sqlite.NewApprovals(db), EndLogins: endLogins, Now: func() time.Time { return time.Now().UTC() },
		}, reached)
	}()
	events = must.Get(log.List(w.t.Context(), journal.Filter{Limit: 100}))(w.t)
	return events, err
}

func noLogins(context.Context, string) (int, error) { return 2, nil }

func codesOf(events []journal.Event) string {
	var codes []string
	for _, e := range events {
		codes = append(codes, string(e.Code))
	}
	return strings.Join(codes, " ")
}

// After a kill at any step, the next start performs the remaining steps once.
func TestStartKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	to := w.backUp()
	r := must.Get(Restore(t.Context(), to, w.target()))(t)
	if _, err := w.startRestored(func(string) {}, func(context.Context, string) (int, error) { return 0, errors.New("the disk is full") }); err == nil {
		t.Fatal("it started without having ended the logins")
	}
	for _, step := range []string{"ended", "signed"} {
		_, err := w.startRestored(func(s string) {
			if s == step {
				panic("killed")
			}
		}, noLogins)
		if err == nil {
			t.Fatalf("the step %q was not reached", step)
		}
		if _, waits := must2(ReadMark(w.target().Dir))(t); !waits {
			t.Errorf("cut off at %q, the mark is gone", step)
		}
	}
	events, err := w.startRestored(func(string) {}, noLogins)
	must.Do(t, err)
	if got, want := codesOf(events), "PAL-J100 PAL-J100 PAL-J102 PAL-P102 PAL-J105 PAL-J102"; got != want {
		t.Errorf("journaled %s, want %s", got, want)
	}
	said := must.Get(journal.ParseRestored(&events[4]))(t)
	if said.Backup.Checkpoint != r.Checkpoint || said.Ended.Logins != 2 || said.Valid.Devices != 1 || events[4].Subject != r.Mark.ID {
		t.Errorf("the event says %+v of %s", said, events[4].Subject)
	}
	if _, waits := must2(ReadMark(w.target().Dir))(t); waits {
		t.Error("the mark is still there")
	}
	db, log := w.open(w.target().Dir)
	freeze, err := sqlite.NewApprovals(db).Freeze(t.Context())
	must.Do(t, err)
	if freeze == nil || freeze.Reason != Why(r.MadeAt) {
		t.Errorf("frozen: %+v", freeze)
	}
	if cp := must.Get(log.Checkpoints.Latest(t.Context()))(t); cp.Size != 5 {
		t.Errorf("the checkpoint covers %d events", cp.Size)
	}
	must.Get(approval.ThawStored(t.Context(), sqlite.NewApprovals(db)))(t)
	must.Do(t, db.Close(t.Context()))
	if events, err = w.startRestored(func(string) {}, noLogins); err != nil || !strings.HasSuffix(codesOf(events), string(event.Thawed)) {
		t.Errorf("a later start: %v, %s", err, codesOf(events))
	}
}

func must2[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) { must.Do(t, err); return a, b }
}

// A mark that cannot be read prevents the gateway's start.
func TestDamagedMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	must.Get(Restore(t.Context(), w.backUp(), w.target()))(t)
	for name, text := range map[string]string{"empty": "", "no JSON": "x", "nothing": "{}"} {
		must.Do(t, os.WriteFile(markPath(w.target().Dir), []byte(text), 0o600))
		if _, err := w.startRestored(func(string) {}, noLogins); err == nil {
			t.Errorf("it started with a mark that is %s", name)
		}
	}
}
