package people

import (
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

const (
	// maxMissed is how many events a client may miss and still resume without a full reload.
	maxMissed = 4096
	// heartbeat is the interval of messages on an idle stream. Pages display themselves as stale
	// after two missed heartbeats (web/src/live/connection.ts). headEvery is the shortest interval
	// between reports of the journal size.
	heartbeat, headEvery = 2 * time.Second, time.Second
)

// Journal is the journal that streams follow.
type Journal interface {
	Head() journal.Head
	// Follow calls fn for every event after a sequence number, in order and without gaps.
	Follow(ctx context.Context, after int64, fn func(journal.Event) error) error
}

// Approval returns an approval as the caller may see it, or nil if the caller may not see it.
type Approval func(ctx context.Context, id string) (*palyrav1.Approval, error)

// eventKinds maps codes of events to object kinds, and to the permission to list these objects. The
// longest matching prefix of a code applies.
var eventKinds = []struct {
	prefix, kind string
	needs        access.Permission
}{
	{"PAL-A", "approval", ""}, // the service decides who may see an approval
	{"PAL-G", "grant", access.PermGrantRead},
	{"PAL-R", "run", access.PermJournalRead},
	{"PAL-D", "call", access.PermJournalRead}, {"PAL-X", "call", access.PermJournalRead}, {"PAL-H10", "call", access.PermJournalRead},
	{"PAL-S1", "session", access.PermJournalRead},
	{"PAL-S2", "secret", access.PermVaultList},
	{"PAL-I", "member", access.PermAccessRead},
	{"PAL-P", "policy", access.PermPolicyRead}, {"PAL-P102", "gateway", access.PermDaemonStatus}, {"PAL-P103", "gateway", access.PermDaemonStatus},
	{"PAL-U", "upstream", access.PermUpstreamRead},
	{"PAL-K", "skill", access.PermSkillRead},
	{"PAL-H11", "install", access.PermTokenRead},
}

// objectKind returns the object kind of an event, or "" if only the journal page shows the event.
func objectKind(code string) (kind string, needs access.Permission) {
	longest := 0
	for _, k := range eventKinds {
		if strings.HasPrefix(code, k.prefix) && len(k.prefix) > longest {
			kind, needs, longest = k.kind, k.needs, len(k.prefix)
		}
	}
	return kind, needs
}

// watcher is an open stream. Only its own goroutine sends.
type watcher struct {
	*ConsoleService
	send func(*palyrav1.WatchConsoleResponse) error
	// at is the last sequence number that was sent.
	at int64
	// headPending is true if the journal grew since the last reported size.
	headPending bool
}

// WatchConsole streams changes.
func (s *ConsoleService) WatchConsole(ctx context.Context, req *palyrav1.WatchConsoleRequest, stream *connect.ServerStream[palyrav1.WatchConsoleResponse]) error {
	w := &watcher{ConsoleService: s, send: stream.Send, at: s.Journal.Head().Seq}
	after := req.GetResumeAfter()
	lost := after > w.at || after > 0 && w.at-after > maxMissed
	if after > 0 && !lost {
		w.at = after
	}
	if err := w.status(ctx); err != nil {
		return err
	}
	if lost {
		if err := w.emit(&palyrav1.WatchConsoleResponse{Event: &palyrav1.WatchConsoleResponse_Reset_{Reset_: &palyrav1.ConsoleReset{}}}); err != nil {
			return err
		}
	}
	return w.run(ctx)
}

// run follows the journal until the stream ends.
func (w *watcher) run(stream context.Context) error {
	ctx, cancel := context.WithCancel(stream)
	events, ended := make(chan journal.Event), make(chan error, 1)
	go func() {
		ended <- w.Journal.Follow(ctx, w.at, func(e journal.Event) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	followed := true
	defer func() {
		if cancel(); followed {
			<-ended //nolint:errcheck // it is why the stream is over, which is said already
		}
	}()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	heads := time.NewTicker(headEvery)
	defer heads.Stop()
	for {
		var err error
		select {
		case <-stream.Done():
			return stream.Err()
		case err = <-ended:
			followed = false
			return err
		case e := <-events:
			err = w.event(stream, e)
			beat.Reset(heartbeat)
		case <-heads.C:
			err = w.head(stream)
		case <-beat.C:
			err = w.emit(&palyrav1.WatchConsoleResponse{Event: &palyrav1.WatchConsoleResponse_Heartbeat{Heartbeat: &palyrav1.ConsoleHeartbeat{}}})
		}
		if err != nil {
			return err
		}
	}
}

// lists reports whether the caller may list objects that require a permission.
func (w *watcher) lists(caller access.Caller, p access.Permission) bool {
	return w.may(caller, p) == nil
}

// emit sends a message with the current sequence number.
func (w *watcher) emit(m *palyrav1.WatchConsoleResponse) error {
	m.Sequence = w.at
	if m.GetAt() == nil {
		m.At = timestamppb.Now()
	}
	return w.send(m)
}

// event sends an event of the journal if the caller may see it. The caller is resolved again for
// each event, because its permissions may have changed.
func (w *watcher) event(ctx context.Context, e journal.Event) error {
	w.at, w.headPending = e.Seq, true
	kind, needs := objectKind(string(e.Code))
	m := &palyrav1.WatchConsoleResponse{At: timestamppb.New(e.At)}
	switch {
	case kind == "":
		return nil
	case kind == "approval":
		a, err := w.views.Of(w.Engine.Current(), w.Caller(ctx), e.Seq, func() (*palyrav1.Approval, error) { return w.Approval(ctx, e.Subject) })
		if reason.Of(err) == reason.NotFound || err == nil && a == nil {
			return nil // the approval is gone, or the caller may not see it
		}
		if err != nil {
			return err
		}
		m.Event = &palyrav1.WatchConsoleResponse_Approval{Approval: a}
		return w.emit(m)
	}
	caller := w.Caller(ctx)
	if e.Actor != caller.Principal.String() && !w.lists(caller, needs) {
		return nil
	}
	m.Event = &palyrav1.WatchConsoleResponse_Change{Change: &palyrav1.ConsoleChange{
		Kind: kind, Code: string(e.Code), Subject: e.Subject, Run: e.Run, Session: e.Session, Actor: e.Actor,
	}}
	if err := w.emit(m); err != nil || kind != "gateway" {
		return err
	}
	return w.status(ctx)
}

// head sends the size of the journal, if the caller may read the journal.
func (w *watcher) head(ctx context.Context) error {
	if !w.headPending || !w.lists(w.Caller(ctx), access.PermJournalRead) {
		return nil
	}
	w.headPending = false
	return w.emit(&palyrav1.WatchConsoleResponse{Event: &palyrav1.WatchConsoleResponse_JournalHead{JournalHead: &palyrav1.ConsoleJournalHead{Size: w.at}}})
}

// status sends the status of the gateway.
func (w *watcher) status(ctx context.Context) error {
	return w.emit(&palyrav1.WatchConsoleResponse{Event: &palyrav1.WatchConsoleResponse_Status{Status: &palyrav1.ConsoleStatus{
		Frozen: w.About.Frozen(ctx), PendingApprovals: int32(min(w.About.Pending(), 1<<30)),
	}}})
}
