package console

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

const (
	// mostOfOne bounds the sessions of a member: a further session ends the oldest.
	mostOfOne = 20
	// maxAgent bounds the stored name of a browser, in bytes.
	maxAgent = 200
)

// Session is one session of the console.
type Session struct {
	ID string
	Way
	// Login is the id of the link that started the session.
	Login              string
	CreatedAt, UsedAt  time.Time
	EndsAt, IdleAt     time.Time
	Address, UserAgent string
}

type session struct {
	Session
	cookie, secret digest
}

// begun is the payload of event.ConsoleBegun, ended the payload of event.ConsoleEnded.
type begun struct {
	SessionID string           `json:"session_id"`
	Principal access.Principal `json:"principal"`
	DeviceID  string           `json:"device_id"`
	Paired    bool             `json:"paired"`
	Provider  bool             `json:"provider"`
	Address   string           `json:"address"`
	UserAgent string           `json:"user_agent"`
	Until     time.Time        `json:"until"`
}

type ended struct {
	SessionID string           `json:"session_id"`
	Principal access.Principal `json:"principal"`
	DeviceID  string           `json:"device_id"`
	By        access.Principal `json:"by"`
	Reason    string           `json:"reason"`
}

// Sessions are the active sessions. It is safe for concurrent use.
type Sessions struct {
	members Members
	journal func(ctx context.Context, drafts ...event.Draft) error
	// idle is the idle timeout of a session, life its maximum duration.
	idle, life time.Duration
	log        *slog.Logger
	now        func() time.Time

	open openSessions

	// mu guards observers.
	mu        sync.Mutex
	observers []func(Session, *reason.Error)
}

// OnEnd registers a function that is called for every session that ends.
func (ss *Sessions) OnEnd(fn func(s Session, why *reason.Error)) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.observers = append(ss.observers, fn)
}

// begin starts a session. The session is valid once it is journaled.
func (ss *Sessions) begin(ctx context.Context, way Way, login, address, agent string) (s Session, cookie, secret string, err error) {
	now := ss.now().UTC()
	id, err := ulid.New(ulid.Timestamp(now), rand.Reader)
	if err != nil {
		return s, "", "", fmt.Errorf("making a session id: %w", err)
	}
	one := session{Session: Session{
		ID: id.String(), Way: way, Login: login, CreatedAt: now, UsedAt: now, EndsAt: now.Add(ss.life), IdleAt: now.Add(ss.idle),
		Address: address, UserAgent: text.Ellipsis(agent, maxAgent),
	}}
	if !way.Until.IsZero() && way.Until.Before(one.EndsAt) {
		one.EndsAt = way.Until
	}
	cookie, one.cookie = fresh()
	secret, one.secret = fresh()
	draft, err := event.DraftOf(event.ConsoleBegun, way.Principal.String(), one.ID, begun{
		SessionID: one.ID, Principal: way.Principal, DeviceID: way.Device, Paired: way.Paired, Provider: way.Provider,
		Address: address, UserAgent: one.UserAgent, Until: one.EndsAt,
	})
	if err == nil {
		err = ss.journal(ctx, draft)
	}
	if err != nil {
		return s, "", "", err
	}
	ss.open.add(one)
	of := ss.open.list(func(s session) bool { return s.Principal == way.Principal })
	for _, old := range of[min(mostOfOne, len(of)):] {
		ss.end(ctx, old.ID, way.Principal, "replaced by newer sessions")
	}
	return one.Session, cookie, secret, nil
}

// List returns the active sessions, newest first.
func (ss *Sessions) List() []Session {
	now := ss.now()
	return ss.open.list(func(s session) bool { return s.over(now) == nil })
}

// Get returns an active session.
func (ss *Sessions) Get(id string) (Session, bool) {
	for _, s := range ss.List() {
		if s.ID == id {
			return s, true
		}
	}
	return Session{}, false
}

// Revoke ends a session on behalf of a principal. The error for an unknown session is NotFound.
func (ss *Sessions) Revoke(ctx context.Context, id string, by access.Principal, why string) (Session, error) {
	s, known := ss.end(ctx, id, by, why)
	if !known {
		return s, reason.Errorf(reason.NotFound, "session %s does not exist or has ended", id).WithRemedy("List the sessions with `palyra console sessions`.")
	}
	return s, nil
}

// endDevice ends the sessions of a device and returns their number.
func (ss *Sessions) endDevice(ctx context.Context, device string, by access.Principal, why string) int {
	list := ss.open.list(func(s session) bool { return s.Device == device })
	for _, s := range list {
		ss.end(ctx, s.ID, by, why)
	}
	return len(list)
}

// end ends a session even if journaling fails: a full disk must not keep a session open.
func (ss *Sessions) end(ctx context.Context, id string, by access.Principal, why string) (Session, bool) {
	found, known := ss.open.remove(id)
	if !known {
		return Session{}, false
	}
	ss.mu.Lock()
	observers := slices.Clone(ss.observers)
	ss.mu.Unlock()
	for _, fn := range observers {
		fn(found.Session, over(why))
	}
	draft, err := event.DraftOf(event.ConsoleEnded, by.String(), id, ended{SessionID: id, Principal: found.Principal, DeviceID: found.Device, By: by, Reason: why})
	if err == nil {
		err = ss.journal(context.WithoutCancel(ctx), draft)
	}
	if err != nil {
		ss.log.ErrorContext(ctx, "journaling the end of a console session failed", slog.String("session", id), slog.String("error", err.Error()))
	}
	return found.Session, true
}

// over returns the error of a session that has ended.
func over(why string) *reason.Error {
	return reason.Errorf(reason.Unauthenticated, "the console session ended: %s", why).WithRemedy("Run `palyra console`.")
}

// over returns the error of a session that has reached a limit, or nil.
func (s session) over(now time.Time) *reason.Error {
	switch {
	case !now.Before(s.EndsAt):
		return over("it reached the maximum of console.session")
	case !now.Before(s.IdleAt):
		return over("it was idle for console.idle")
	}
	return nil
}

// held returns the session of a cookie.
func (ss *Sessions) held(cookie string) (Session, bool) {
	s, known := ss.open.get(digestOf(cookie))
	return s.Session, known
}

// find returns the session of a cookie and a secret. It ends a session that has reached a limit.
func (ss *Sessions) find(ctx context.Context, cookie, secret string) (Session, error) {
	s, known := ss.open.get(digestOf(cookie))
	if !known || !s.secret.is(secret) {
		return Session{}, reason.Errorf(reason.Unauthenticated, "the browser has no active session of this console").WithRemedy("Run `palyra console`.")
	}
	if why := s.over(ss.now()); why != nil {
		ss.end(ctx, s.ID, s.Principal, tooOld)
		return Session{}, why
	}
	return s.Session, nil
}

// sweepInterval is how often expired sessions are removed: the streams of an idle page end with its
// session.
const sweepInterval = 15 * time.Second

// Run ends sessions that have reached a limit, until ctx ends.
func (ss *Sessions) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			ss.sweep(ctx)
		}
	}
}

func (ss *Sessions) sweep(ctx context.Context) {
	now := ss.now()
	for _, s := range ss.open.list(func(s session) bool { return s.over(now) != nil }) {
		ss.end(ctx, s.ID, s.Principal, tooOld)
	}
}

// tooOld is the reason of a session that ends automatically.
const tooOld = "the session reached its idle or total limit"

// use records the use of a cookie's session.
func (ss *Sessions) use(cookie string) {
	now := ss.now().UTC()
	ss.open.use(digestOf(cookie), now, now.Add(ss.idle))
}

// caller returns the current caller of a session, and the end time of the session.
func (ss *Sessions) caller(ctx context.Context, id string) (access.Caller, time.Time, error) {
	s, known := ss.Get(id)
	if !known {
		return access.Caller{}, time.Time{}, over("it was ended")
	}
	caller, err := ss.members.SessionCaller(s.Device, s.Over)
	switch {
	case err != nil:
		ss.end(ctx, id, s.Principal, "its device or its member may no longer act")
		return access.Caller{}, time.Time{}, err
	case caller.Principal != s.Principal:
		ss.end(ctx, id, s.Principal, "its device belongs to another member")
		return access.Caller{}, time.Time{}, over("its device belongs to another member")
	}
	caller.Surface, caller.Paired = access.SurfaceConsole, s.Paired
	return caller, s.EndsAt, nil
}
