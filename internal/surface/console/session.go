package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
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

// digest is the SHA-256 of a token, a cookie or a secret.
type digest [sha256.Size]byte

// fresh returns 256 random bits as text, and their digest.
func fresh() (string, digest) {
	raw := make([]byte, 32)
	// crypto/rand.Read never fails.
	_, _ = rand.Read(raw)
	text := base64.RawURLEncoding.EncodeToString(raw)
	return text, digestOf(text)
}

func digestOf(text string) digest { return sha256.Sum256([]byte(text)) }

// is reports whether d is the digest of a text. It compares in constant time.
func (d digest) is(text string) bool {
	other := digestOf(text)
	return subtle.ConstantTimeCompare(d[:], other[:]) == 1
}

// Way describes how a session's member authenticated.
type Way struct {
	Principal access.Principal
	// Device is the device that made the login; the session ends with the device.
	Device string
	// Paired is true if the device presented its certificate.
	Paired bool
	// Over is access.TransportSocket for the local operator's socket.
	Over access.Transport
	// Provider is true for a login at the identity provider, which ends at Until.
	Provider bool
	Until    time.Time
}

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

// begin starts a session. The session is valid once it is journaled.
func (c *Console) begin(ctx context.Context, way Way, login, address, agent string) (s Session, cookie, secret string, err error) {
	now := c.Now().UTC()
	id, err := ulid.New(ulid.Timestamp(now), rand.Reader)
	if err != nil {
		return s, "", "", fmt.Errorf("making a session id: %w", err)
	}
	one := &session{Session: Session{
		ID: id.String(), Way: way, Login: login, CreatedAt: now, UsedAt: now, EndsAt: now.Add(c.Life), IdleAt: now.Add(c.Idle),
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
		err = c.Journal(ctx, draft)
	}
	if err != nil {
		return s, "", "", err
	}
	c.mu.Lock()
	c.byCookie[one.cookie] = one
	surplus := c.surplus(way.Principal)
	c.mu.Unlock()
	for _, old := range surplus {
		c.end(ctx, old, way.Principal, "replaced by newer sessions")
	}
	return one.Session, cookie, secret, nil
}

// surplus returns the oldest sessions of a member beyond mostOfOne. The caller holds mu.
func (c *Console) surplus(p access.Principal) (ids []string) {
	list := c.of(func(s *session) bool { return s.Principal == p })
	for ; len(list) > mostOfOne; list = list[:len(list)-1] {
		ids = append(ids, list[len(list)-1].ID)
	}
	return ids
}

// of returns the matching sessions, newest first. The caller holds mu.
func (c *Console) of(match func(*session) bool) (list []Session) {
	for _, s := range c.byCookie {
		if match(s) {
			list = append(list, s.Session)
		}
	}
	slices.SortFunc(list, func(a, b Session) int { return cmp.Compare(b.ID, a.ID) })
	return list
}

// Sessions returns the active sessions, newest first.
func (c *Console) Sessions() []Session {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of(func(s *session) bool { return s.over(now) == nil })
}

// Get returns an active session.
func (c *Console) Get(id string) (Session, bool) {
	for _, s := range c.Sessions() {
		if s.ID == id {
			return s, true
		}
	}
	return Session{}, false
}

// Revoke ends a session on behalf of a principal. The error for an unknown session is NotFound.
func (c *Console) Revoke(ctx context.Context, id string, by access.Principal, why string) (Session, error) {
	s, known := c.end(ctx, id, by, why)
	if !known {
		return s, reason.Errorf(reason.NotFound, "session %s does not exist or has ended", id).WithRemedy("List the sessions with `palyra console sessions`.")
	}
	return s, nil
}

// EndDevice ends the sessions of a device and returns their number.
func (c *Console) EndDevice(ctx context.Context, device string, by access.Principal, why string) int {
	c.mu.Lock()
	list := c.of(func(s *session) bool { return s.Device == device })
	for d, l := range c.logins {
		if l.way.Device == device {
			delete(c.logins, d)
		}
	}
	c.mu.Unlock()
	for _, s := range list {
		c.end(ctx, s.ID, by, why)
	}
	return len(list)
}

// end ends a session even if journaling fails: a full disk must not keep a session open.
func (c *Console) end(ctx context.Context, id string, by access.Principal, why string) (Session, bool) {
	c.mu.Lock()
	var found *session
	for cookie, s := range c.byCookie {
		if s.ID == id {
			found = s
			delete(c.byCookie, cookie)
		}
	}
	observers := slices.Clone(c.ended)
	c.mu.Unlock()
	if found == nil {
		return Session{}, false
	}
	for _, fn := range observers {
		fn(found.Session, over(why))
	}
	draft, err := event.DraftOf(event.ConsoleEnded, by.String(), id, ended{SessionID: id, Principal: found.Principal, DeviceID: found.Device, By: by, Reason: why})
	if err == nil {
		err = c.Journal(context.WithoutCancel(ctx), draft)
	}
	if err != nil {
		c.Log.ErrorContext(ctx, "journaling the end of a console session failed", slog.String("session", id), slog.String("error", err.Error()))
	}
	return found.Session, true
}

// over returns the error of a session that has ended.
func over(why string) *reason.Error {
	return reason.Errorf(reason.Unauthenticated, "the console session ended: %s", why).WithRemedy("Run `palyra console`.")
}

// over returns the error of a session that has reached a limit, or nil.
func (s *session) over(now time.Time) *reason.Error {
	switch {
	case !now.Before(s.EndsAt):
		return over("it reached the maximum of console.session")
	case !now.Before(s.IdleAt):
		return over("it was idle for console.idle")
	}
	return nil
}

// held returns the session of a cookie.
func (c *Console) held(cookie string) (Session, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.byCookie[digestOf(cookie)]; s != nil {
		return s.Session, true
	}
	return Session{}, false
}

// find returns the session of a cookie and a secret. It ends a session that has reached a limit.
func (c *Console) find(ctx context.Context, cookie, secret string) (Session, error) {
	c.mu.Lock()
	s := c.byCookie[digestOf(cookie)]
	if s == nil || !s.secret.is(secret) {
		c.mu.Unlock()
		return Session{}, reason.Errorf(reason.Unauthenticated, "the browser has no active session of this console").WithRemedy("Run `palyra console`.")
	}
	found, why := s.Session, s.over(c.Now())
	c.mu.Unlock()
	if why != nil {
		c.end(ctx, found.ID, found.Principal, tooOld)
		return Session{}, why
	}
	return found, nil
}

// sweepInterval is how often expired sessions are removed: the streams of an idle page end with its
// session.
const sweepInterval = 15 * time.Second

// Run ends sessions that have reached a limit, until ctx ends.
func (c *Console) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.sweep(ctx)
		}
	}
}

func (c *Console) sweep(ctx context.Context) {
	now := c.Now()
	c.mu.Lock()
	list := c.of(func(s *session) bool { return s.over(now) != nil })
	c.mu.Unlock()
	for _, s := range list {
		c.end(ctx, s.ID, s.Principal, tooOld)
	}
}

// tooOld is the reason of a session that ends automatically.
const tooOld = "the session reached its idle or total limit"

// use records the use of a cookie's session.
func (c *Console) use(cookie string) {
	now := c.Now().UTC()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.byCookie[digestOf(cookie)]; s != nil {
		s.UsedAt, s.IdleAt = now, now.Add(c.Idle)
	}
}

// caller returns the current caller of a session, and the end time of the session.
func (c *Console) caller(ctx context.Context, id string) (access.Caller, time.Time, error) {
	s, known := c.Get(id)
	if !known {
		return access.Caller{}, time.Time{}, over("it was ended")
	}
	caller, err := c.Members.SessionCaller(s.Device, s.Over)
	switch {
	case err != nil:
		c.end(ctx, id, s.Principal, "its device or its member may no longer act")
		return access.Caller{}, time.Time{}, err
	case caller.Principal != s.Principal:
		c.end(ctx, id, s.Principal, "its device belongs to another member")
		return access.Caller{}, time.Time{}, over("its device belongs to another member")
	}
	caller.Surface, caller.Paired = access.SurfaceConsole, s.Paired
	return caller, s.EndsAt, nil
}
