package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

const (
	// loginLife is how long a link is valid.
	loginLife = time.Minute
	// mostLogins bounds the unopened links.
	mostLogins = 1024
)

// waiting is a link that was not opened yet.
type waiting struct {
	id   string
	way  Way
	ends time.Time
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

// Link is a pending login: the first browser that opens it gets a session.
type Link struct {
	ID, URL   string
	ExpiresAt time.Time
}

// linked is the payload of event.ConsoleLink.
type linked struct {
	LoginID   string           `json:"login_id"`
	Principal access.Principal `json:"principal"`
	DeviceID  string           `json:"device_id"`
	Paired    bool             `json:"paired"`
	Until     time.Time        `json:"until"`
}

// links are the links that were not opened yet, in memory alone. It is safe for concurrent use.
type links struct {
	origin  string
	journal func(ctx context.Context, drafts ...event.Draft) error
	now     func() time.Time

	mu      sync.Mutex
	pending map[digest]*waiting
}

// Link creates a link for a caller with a device certificate or on the socket of the local
// operator. Other callers are refused, and a session of the console cannot create a link.
func (c *Console) Link(ctx context.Context, by access.Caller) (Link, error) {
	if err := c.off(); err != nil {
		return Link{}, err
	}
	switch {
	case by.Token != nil:
		return Link{}, reason.Errorf(reason.PermissionDenied, "a token cannot log in to the console").
			WithRemedy("Run `palyra console` with the certificate of a device, not with --credentials of a token.")
	case by.Surface == access.SurfaceConsole:
		return Link{}, reason.Errorf(reason.PermissionDenied, "a console session cannot create another one").WithRemedy("Run `palyra console` on your device.")
	case by.Principal.Kind != access.KindUser:
		return Link{}, reason.Errorf(reason.PermissionDenied, "opening the console: %s is not a user", by.Principal)
	case !by.Paired && by.Transport != access.TransportSocket:
		return Link{}, reason.Errorf(reason.PermissionDenied, "logging in to the console requires the certificate of a device")
	}
	return c.links.create(ctx, Way{Principal: by.Principal, Device: by.DeviceID, Paired: by.Paired, Over: by.Transport})
}

func (l *links) create(ctx context.Context, way Way) (Link, error) {
	now := l.now().UTC()
	id, err := ulid.New(ulid.Timestamp(now), rand.Reader)
	if err != nil {
		return Link{}, fmt.Errorf("making a login id: %w", err)
	}
	token, key := fresh()
	one := &waiting{id: id.String(), way: way, ends: now.Add(loginLife)}
	draft, err := event.DraftOf(event.ConsoleLink, way.Principal.String(), one.id, linked{
		LoginID: one.id, Principal: way.Principal, DeviceID: way.Device, Paired: way.Paired, Until: one.ends,
	})
	if err == nil {
		err = l.journal(ctx, draft)
	}
	if err != nil {
		return Link{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for d, old := range l.pending {
		if !now.Before(old.ends) {
			delete(l.pending, d)
		}
	}
	if len(l.pending) >= mostLogins {
		return Link{}, reason.Errorf(reason.RateLimited, "too many console links are pending").WithField("retry_after", loginLife.String())
	}
	l.pending[key] = one
	return Link{ID: one.id, URL: l.origin + "/login#token=" + token, ExpiresAt: one.ends}, nil
}

// redeem consumes a token, which is valid once.
func (l *links) redeem(token string) (*waiting, error) {
	key := digestOf(token)
	l.mu.Lock()
	one := l.pending[key]
	delete(l.pending, key)
	l.mu.Unlock()
	if one == nil || !l.now().Before(one.ends) {
		return nil, reason.Errorf(reason.LoginRefused, "the link is not valid: it was already opened, or is older than %s", loginLife).
			WithRemedy("Run `palyra console` for a new link.")
	}
	return one, nil
}

// drop removes the links of a device.
func (l *links) drop(device string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.pending, func(_ digest, one *waiting) bool { return one.way.Device == device })
}

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
