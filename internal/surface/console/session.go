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
	// mostOfOne is how many sessions a member has at a time; one more ends the oldest.
	mostOfOne = 20
	// maxAgent bounds what is kept of a browser's name, in bytes.
	maxAgent = 200
)

// digest is the SHA-256 of a token, a cookie or a secret.
type digest [sha256.Size]byte

// fresh returns 256 random bits as text, and their digest.
func fresh() (string, digest) {
	raw := make([]byte, 32)
	// It never fails (crypto/rand).
	_, _ = rand.Read(raw)
	text := base64.RawURLEncoding.EncodeToString(raw)
	return text, digestOf(text)
}

func digestOf(text string) digest { return sha256.Sum256([]byte(text)) }

// is compares in constant time.
func (d digest) is(text string) bool {
	other := digestOf(text)
	return subtle.ConstantTimeCompare(d[:], other[:]) == 1
}

// Way is how a session's member showed who they are.
type Way struct {
	Principal access.Principal
	// Device is the one that made the login, with which the session ends.
	Device string
	// Paired is true where the device showed its certificate.
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
	// Login is the id of the link that it began with.
	Login              string
	CreatedAt, UsedAt  time.Time
	EndsAt, IdleAt     time.Time
	Address, UserAgent string
}

type session struct {
	Session
	cookie, secret digest
}

// begun is the payload of event.ConsoleBegun, ended that of event.ConsoleEnded.
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

// begin begins a session. It counts once the journal has it.
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
		c.end(ctx, old, way.Principal, "there are newer ones")
	}
	return one.Session, cookie, secret, nil
}

// surplus are the oldest sessions of a member beyond mostOfOne. The caller holds mu.
func (c *Console) surplus(p access.Principal) (ids []string) {
	list := c.of(func(s *session) bool { return s.Principal == p })
	for ; len(list) > mostOfOne; list = list[:len(list)-1] {
		ids = append(ids, list[len(list)-1].ID)
	}
	return ids
}

// of are the sessions that match, newest first. The caller holds mu.
func (c *Console) of(match func(*session) bool) (list []Session) {
	for _, s := range c.byCookie {
		if match(s) {
			list = append(list, s.Session)
		}
	}
	slices.SortFunc(list, func(a, b Session) int { return cmp.Compare(b.ID, a.ID) })
	return list
}

// Sessions are those that have not ended, newest first.
func (c *Console) Sessions() []Session {
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of(func(s *session) bool { return s.over(now) == nil })
}

// Get returns a session that has not ended.
func (c *Console) Get(id string) (Session, bool) {
	for _, s := range c.Sessions() {
		if s.ID == id {
			return s, true
		}
	}
	return Session{}, false
}

// Revoke ends a session, in the name of somebody. One that is not there is NotFound.
func (c *Console) Revoke(ctx context.Context, id string, by access.Principal, why string) (Session, error) {
	s, known := c.end(ctx, id, by, why)
	if !known {
		return s, reason.Errorf(reason.NotFound, "there is no session %s, or it ended", id).WithRemedy("See `palyra console sessions`.")
	}
	return s, nil
}

// EndDevice ends the sessions that a device made, and returns how many there were.
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

// end ends a session, whatever the journal says: a full disk keeps nobody in.
func (c *Console) end(ctx context.Context, id string, by access.Principal, why string) (Session, bool) {
	c.mu.Lock()
	var found *session
	for cookie, s := range c.byCookie {
		if s.ID == id {
			found = s
			delete(c.byCookie, cookie)
		}
	}
	told := slices.Clone(c.ended)
	c.mu.Unlock()
	if found == nil {
		return Session{}, false
	}
	for _, fn := range told {
		fn(found.Session, over(why))
	}
	draft, err := event.DraftOf(event.ConsoleEnded, by.String(), id, ended{SessionID: id, Principal: found.Principal, DeviceID: found.Device, By: by, Reason: why})
	if err == nil {
		err = c.Journal(context.WithoutCancel(ctx), draft)
	}
	if err != nil {
		c.Log.ErrorContext(ctx, "the end of a console session is not in the journal", slog.String("session", id), slog.String("error", err.Error()))
	}
	return found.Session, true
}

// over is why a session that ended is not taken.
func over(why string) *reason.Error {
	return reason.Errorf(reason.Unauthenticated, "the session of the console ended: %s", why).WithRemedy("Run `palyra console`.")
}

// over says why a session is at its end now, nil for one that goes on.
func (s *session) over(now time.Time) *reason.Error {
	switch {
	case !now.Before(s.EndsAt):
		return over("it was as long as console.session allows")
	case !now.Before(s.IdleAt):
		return over("nobody used it for as long as console.idle allows")
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

// find returns the session of a cookie and a secret. One that is over ends here.
func (c *Console) find(ctx context.Context, cookie, secret string) (Session, error) {
	c.mu.Lock()
	s := c.byCookie[digestOf(cookie)]
	if s == nil || !s.secret.is(secret) {
		c.mu.Unlock()
		return Session{}, reason.Errorf(reason.Unauthenticated, "the browser has no session of this console, or it ended").WithRemedy("Run `palyra console`.")
	}
	found, why := s.Session, s.over(c.Now())
	c.mu.Unlock()
	if why != nil {
		c.end(ctx, found.ID, found.Principal, tooOld)
		return Session{}, why
	}
	return found, nil
}

// sweepInterval is how often sessions are looked through for those that are over: the
// streams of a page that nobody uses end with its session.
const sweepInterval = 15 * time.Second

// Run ends sessions that are over, until ctx ends.
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

// tooOld is why a session ends by itself.
const tooOld = "it was not used, or lasted as long as it may"

// use notes that somebody used the session of a cookie.
func (c *Console) use(cookie string) {
	now := c.Now().UTC()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.byCookie[digestOf(cookie)]; s != nil {
		s.UsedAt, s.IdleAt = now, now.Add(c.Idle)
	}
}

// caller is who a session stands for now, and until when.
func (c *Console) caller(ctx context.Context, id string) (access.Caller, time.Time, error) {
	s, known := c.Get(id)
	if !known {
		return access.Caller{}, time.Time{}, over("it was ended")
	}
	caller, err := c.Members.SessionCaller(s.Device, s.Over)
	switch {
	case err != nil:
		c.end(ctx, id, s.Principal, "its device or its member may not act any more")
		return access.Caller{}, time.Time{}, err
	case caller.Principal != s.Principal:
		c.end(ctx, id, s.Principal, "its device is another member's")
		return access.Caller{}, time.Time{}, over("its device is another member's")
	}
	caller.Surface, caller.Paired = access.SurfaceConsole, s.Paired
	return caller, s.EndsAt, nil
}
