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
	// kept is how many events a client may have missed and go on without asking for
	// everything again.
	kept = 4096
	// heartbeat is how often a quiet stream says that it is alive; pages call themselves stale when
	// they miss two (web/src/live/connection.ts). headEvery how often at
	// most it says how far the journal is.
	heartbeat, headEvery = 2 * time.Second, time.Second
)

// Journal is what streams follow.
type Journal interface {
	Head() journal.Head
	// Follow calls fn for every event after a sequence number, in order, without gap.
	Follow(ctx context.Context, after int64, fn func(journal.Event) error) error
}

// Approval returns an approval as the caller is shown it; nil for one that it is not.
type Approval func(ctx context.Context, id string) (*palyrav1.Approval, error)

// closeKinds are what events are about, and the permission with which one may list that. The
// longest prefix of a code counts.
var closeKinds = []struct {
	prefix, kind string
	needs        access.Permission
}{
	{"PAL-A", "approval", ""}, // who is shown one is its own matter
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

// about says what an event is about; kind is "" for what no page shows but the journal's.
func about(code string) (kind string, needs access.Permission) {
	longest := 0
	for _, k := range closeKinds {
		if strings.HasPrefix(code, k.prefix) && len(k.prefix) > longest {
			kind, needs, longest = k.kind, k.needs, len(k.prefix)
		}
	}
	return kind, needs
}

// watcher is one stream under way. Only its own goroutine sends.
type watcher struct {
	*ConsoleService
	send func(*palyrav1.WatchConsoleResponse) error
	// at is the last number that was sent.
	at int64
	// stale says that more of the journal is there than the client was told.
	stale bool
}

// WatchConsole streams what changes.
func (s *ConsoleService) WatchConsole(ctx context.Context, req *palyrav1.WatchConsoleRequest, stream *connect.ServerStream[palyrav1.WatchConsoleResponse]) error {
	w := &watcher{ConsoleService: s, send: stream.Send, at: s.Journal.Head().Seq}
	after := req.GetResumeAfter()
	lost := after > w.at || after > 0 && w.at-after > kept
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

// lists reports whether the caller may list what takes a permission.
func (w *watcher) lists(caller access.Caller, p access.Permission) bool {
	return w.may(caller, p) == nil
}

// emit sends with the number that the stream is at.
func (w *watcher) emit(m *palyrav1.WatchConsoleResponse) error {
	m.Sequence = w.at
	if m.GetAt() == nil {
		m.At = timestamppb.Now()
	}
	return w.send(m)
}

// event sends what an event of the journal means to the caller, who is asked for anew: it
// may do less by now.
func (w *watcher) event(ctx context.Context, e journal.Event) error {
	w.at, w.stale = e.Seq, true
	kind, needs := about(string(e.Code))
	m := &palyrav1.WatchConsoleResponse{At: timestamppb.New(e.At)}
	switch {
	case kind == "":
		return nil
	case kind == "approval":
		a, err := w.views.Of(w.Engine.Current(), w.Caller(ctx), e.Seq, func() (*palyrav1.Approval, error) { return w.Approval(ctx, e.Subject) })
		if reason.Of(err) == reason.NotFound || err == nil && a == nil {
			return nil // it is gone, or not the caller's to see
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

// head says how far the journal is, to whoever may read it.
func (w *watcher) head(ctx context.Context) error {
	if !w.stale || !w.lists(w.Caller(ctx), access.PermJournalRead) {
		return nil
	}
	w.stale = false
	return w.emit(&palyrav1.WatchConsoleResponse{Event: &palyrav1.WatchConsoleResponse_JournalHead{JournalHead: &palyrav1.ConsoleJournalHead{Size: w.at}}})
}

// status says how the gateway is.
func (w *watcher) status(ctx context.Context) error {
	return w.emit(&palyrav1.WatchConsoleResponse{Event: &palyrav1.WatchConsoleResponse_Status{Status: &palyrav1.ConsoleStatus{
		Frozen: w.About.Frozen(ctx), PendingApprovals: int32(min(w.About.Pending(), 1<<30)),
	}}})
}
