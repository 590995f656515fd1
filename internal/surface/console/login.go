package console

import (
	"context"
	"crypto/rand"
	"fmt"
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
	return c.link(ctx, Way{Principal: by.Principal, Device: by.DeviceID, Paired: by.Paired, Over: by.Transport})
}

func (c *Console) link(ctx context.Context, way Way) (Link, error) {
	now := c.Now().UTC()
	id, err := ulid.New(ulid.Timestamp(now), rand.Reader)
	if err != nil {
		return Link{}, fmt.Errorf("making a login id: %w", err)
	}
	token, key := fresh()
	l := &waiting{id: id.String(), way: way, ends: now.Add(loginLife)}
	draft, err := event.DraftOf(event.ConsoleLink, way.Principal.String(), l.id, linked{
		LoginID: l.id, Principal: way.Principal, DeviceID: way.Device, Paired: way.Paired, Until: l.ends,
	})
	if err == nil {
		err = c.Journal(ctx, draft)
	}
	if err != nil {
		return Link{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for d, old := range c.logins {
		if !now.Before(old.ends) {
			delete(c.logins, d)
		}
	}
	if len(c.logins) >= mostLogins {
		return Link{}, reason.Errorf(reason.RateLimited, "too many console links are pending").WithField("retry_after", loginLife.String())
	}
	c.logins[key] = l
	return Link{ID: l.id, URL: c.Origin + "/login#token=" + token, ExpiresAt: l.ends}, nil
}

// redeem consumes a token, which is valid once.
func (c *Console) redeem(token string) (*waiting, error) {
	key := digestOf(token)
	c.mu.Lock()
	l := c.logins[key]
	delete(c.logins, key)
	c.mu.Unlock()
	if l == nil || !c.Now().Before(l.ends) {
		return nil, reason.Errorf(reason.LoginRefused, "the link is not valid: it was already opened, or is older than %s", loginLife).
			WithRemedy("Run `palyra console` for a new link.")
	}
	return l, nil
}
