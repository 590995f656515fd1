package identity

import (
	"context"
	"fmt"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/identity/ca"
)

const (
	// mostSessions limits a person's simultaneous sessions; one more ends the oldest.
	mostSessions = 10
	// keptSessions is how long the device of an ended session is kept. Until then, votes and
	// grants given in the session count, as for other devices whose certificate has expired.
	keptSessions = 30 * 24 * time.Hour
)

// Provider returns the principal recorded in the journal for the effects of a login: the identity
// provider chosen by the host's administrator.
func Provider() access.Principal { return access.Principal{Kind: access.KindService, Name: "oidc"} }

// Login is a person authenticated by the identity provider.
type Login struct {
	// Issuer and Subject identify the person uniquely.
	Issuer, Subject string
	// Name is the name of the new member, if the person has no member yet.
	Name string
	// Roles are the complete roles of the member after the login.
	Roles []access.Role
	// Request is a certificate request of the session's key.
	Request []byte
	// Life is the duration of the session, at most ca.LeafLife.
	Life time.Duration
}

// LoggedIn is a started session.
type LoggedIn struct {
	Member      access.Member
	Device      Device
	Certificate ca.Issued
}

// person identifies a person at an identity provider.
type person struct{ issuer, subject string }

// Logins starts and ends the sessions of people whom the identity provider authenticated.
type Logins struct {
	dir       *Directory
	work      *OpenWork
	authority *ca.Authority
}

// LogIn starts a session of a person. The first login creates the member. Later logins use that
// member, even under another name, and set its roles to the roles of the login. LogIn never
// takes over an existing member. A loss of permissions is recorded in the event and not
// refused, because the administrator who maps groups to roles decided it.
func (s *Logins) LogIn(ctx context.Context, l Login) (in LoggedIn, err error) {
	err = s.dir.change(ctx, func() error {
		in, err = s.logIn(ctx, l)
		return err
	})
	if err != nil {
		return LoggedIn{}, fmt.Errorf("logging in: %w", err)
	}
	return in, nil
}

func (s *Logins) logIn(ctx context.Context, l Login) (LoggedIn, error) {
	was, m, err := s.loginMember(l)
	if err != nil {
		return LoggedIn{}, err
	}
	known := !was.CreatedAt.IsZero()
	dev, err := s.dir.newDevice(m.Principal, "login")
	if err != nil {
		return LoggedIn{}, err
	}
	cert, err := s.authority.IssueSession(l.Request, dev.ID, l.Life)
	if err != nil {
		return LoggedIn{}, err
	}
	dev.holds(cert, s.dir.now())
	dev.LoginUntil = cert.NotAfter
	c := Change{NewDevices: []Device{dev}, Forgotten: s.forgettable()}
	var d drafts
	changed := !slices.Equal(was.Roles, m.Roles)
	switch {
	case !known:
		c.NewMembers = []access.Member{m}
		c.NewBindings = []Binding{{Issuer: l.Issuer, Subject: l.Subject, Member: m.Principal, MadeAt: dev.CreatedAt}}
		d.member(Provider(), m)
	case changed:
		c.Members = []access.Member{m}
		d.add(event.MemberChanged, Provider(), m.Principal.String(), memberChanged{Principal: m.Principal, Roles: m.Roles, WasRoles: was.Roles})
	}
	d.certificate(Provider(), dev, cert, false)
	d.add(event.LoggedIn, m.Principal, dev.ID, loggedIn{
		DeviceID: dev.ID, Principal: m.Principal, Issuer: l.Issuer, Subject: l.Subject, Until: dev.LoginUntil,
		Loss: lossOfLogin(s.dir.registry, m), Forgotten: append([]string{}, c.Forgotten...),
	})
	c.Devices = s.surplus(m.Principal, &d)
	if err := s.dir.apply(ctx, Provider(), c, d); err != nil {
		return LoggedIn{}, err
	}
	for _, old := range c.Devices {
		s.work.end(old, loggedOut(old))
	}
	if changed {
		err = s.dir.publish(ctx, Provider())
	}
	if len(without(was.Roles, m.Roles)) > 0 {
		s.work.Cut(m.Principal, reason.Errorf(reason.Unauthenticated, "the permissions of %s were changed", m.Principal).WithRemedy("Connect again."))
	}
	return LoggedIn{Member: m, Device: dev, Certificate: cert}, err
}

// loginMember returns the member of a person before and after the login. was is the zero value for
// a new member.
func (s *Logins) loginMember(l Login) (was, m access.Member, err error) {
	p, bound := s.dir.memberOf(person{l.Issuer, l.Subject})
	if !bound {
		m = access.Member{Principal: access.User(l.Name), Roles: tidy(l.Roles), CreatedAt: s.dir.instant()}
		if err := checkMember(s.dir.registry, m); err != nil {
			return was, m, err
		}
		return was, m, s.free(m.Principal)
	}
	if was, bound = s.dir.registry.Get(p); !bound || was.Removed() {
		return was, m, reason.Errorf(reason.LoginRefused, "%s was removed permanently", p).
			WithRemedy("Ask an owner for another member with a credential: `palyra members add NAME --role ROLE`.")
	}
	if was.Disabled {
		return was, m, reason.Errorf(reason.LoginRefused, "%s is disabled", p).
			WithRemedy("Ask an owner or admin: `palyra members enable %s`.", p.Name)
	}
	m = was
	m.Roles = tidy(l.Roles)
	if err := checkMember(s.dir.registry, m); err != nil {
		return was, m, err
	}
	// Refusing the login because of another member's loss would override the administrator.
	return was, m, replaceable(s.dir.registry, m, true, "")
}

// free refuses a name that a member has or had.
func (s *Logins) free(p access.Principal) error {
	of, taken := s.dir.registry.Get(p)
	if !taken {
		return nil
	}
	other, logsIn := s.dir.Binding(p)
	switch {
	case of.Removed():
		return reason.Errorf(reason.LoginRefused, "a removed member had the name %s, which the journal, votes and grants still use", p).
			WithRemedy("Have the identity provider give the person another name, or choose another claim for oidc.username_claim.")
	case logsIn:
		return reason.Errorf(reason.LoginRefused, "%s is another person at the identity provider (subject %s)", p, other.Subject).
			WithRemedy("Have the identity provider give the person another name, or choose another claim for oidc.username_claim.")
	}
	return reason.Errorf(reason.LoginRefused, "the local member %s already exists, and a login cannot take over a member", p).
		WithRemedy("Log in with that member's own credential, or have the identity provider give the person another name.")
}

// forgettable returns the sessions that ended long ago.
func (s *Logins) forgettable() (ids []string) {
	before := s.dir.now().Add(-keptSessions)
	for _, d := range s.dir.Devices() {
		if d.Session() && d.LoginUntil.Before(before) {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// surplus ends the oldest sessions of a member that has the maximum number, and returns them.
func (s *Logins) surplus(p access.Principal, d *drafts) (ended []Device) {
	live := s.sessionsOf(p)
	for len(live) >= mostSessions {
		ended = append(ended, s.end(live[0], "there are newer ones", d))
		live = live[1:]
	}
	return ended
}

// sessionsOf returns the active sessions of a member, the oldest first.
func (s *Logins) sessionsOf(p access.Principal) []Device {
	now := s.dir.now()
	return slices.DeleteFunc(s.dir.devicesOf(p), func(d Device) bool { return !d.Session() || !now.Before(d.LoginUntil) })
}

// end ends a session, and returns it.
func (s *Logins) end(dev Device, why string, d *drafts) Device {
	dev.LoginUntil = s.dir.instant()
	dev.Version++
	d.add(event.LoggedOut, dev.Principal, dev.ID, loggedOutEvent{DeviceID: dev.ID, Principal: dev.Principal, Reason: why})
	return dev
}

func loggedOut(d Device) *reason.Error {
	return reason.Errorf(reason.Unauthenticated, "the login %s of %s ended at %s", d.ID, d.Principal, d.LoginUntil.Format(time.RFC3339)).
		WithRemedy("Log in again: `palyra login`.")
}

// LogOut ends the session of a device, and its open work. Votes and grants given in the session
// remain, because a logout is not the loss of a device. For the same reason, a member who logs
// in counts as reachable between sessions. Ending an ended session changes nothing. Revoking
// the device was rejected: an approver who logs out would withdraw every vote.
func (s *Logins) LogOut(ctx context.Context, deviceID string) error {
	return s.dir.change(ctx, func() error {
		dev, known := s.dir.Device(deviceID)
		switch {
		case !known || !dev.Session():
			return reason.Errorf(reason.NotFound, "device %s is not a login", deviceID).
				WithRemedy("`palyra devices revoke %s` ends a device for good.", deviceID)
		case !s.dir.now().Before(dev.LoginUntil):
			return nil
		}
		return s.endAll(ctx, []Device{dev}, "logged out")
	})
}

// EndLogins ends the sessions of a person to whom the identity provider no longer grants access.
func (s *Logins) EndLogins(ctx context.Context, issuer, subject, why string) error {
	return s.dir.change(ctx, func() error {
		p, bound := s.dir.memberOf(person{issuer, subject})
		if !bound {
			return nil
		}
		return s.endAll(ctx, s.sessionsOf(p), why)
	})
}

// EndAllLogins ends the sessions of all people, and returns their number.
func (s *Logins) EndAllLogins(ctx context.Context, why string) (ended int, err error) {
	err = s.dir.change(ctx, func() error {
		now := s.dir.now()
		live := slices.DeleteFunc(s.dir.Devices(), func(d Device) bool { return !d.Session() || d.Revoked() || !now.Before(d.LoginUntil) })
		ended = len(live)
		return s.endAll(ctx, live, why)
	})
	return ended, err
}

func (s *Logins) endAll(ctx context.Context, sessions []Device, why string) error {
	var d drafts
	var c Change
	for _, dev := range sessions {
		c.Devices = append(c.Devices, s.end(dev, why, &d))
	}
	if len(c.Devices) == 0 {
		return nil
	}
	if err := s.dir.apply(ctx, Provider(), c, d); err != nil {
		return fmt.Errorf("ending sessions: %w", err)
	}
	for _, dev := range c.Devices {
		s.work.end(dev, loggedOut(dev))
	}
	return nil
}
