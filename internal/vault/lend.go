package vault

import (
	"context"
	"errors"
	"slices"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Lease lends the newest value of a secret to a caller's call. The handle returns it until the call
// or the run ends.
func (s *Service) Lease(ctx context.Context, b Borrower, q LeaseRequest) (*Handle, error) {
	if err := q.Ref.check(); err != nil {
		return nil, err
	}
	if err := s.guard.mayBorrow(b, access.PermSecretLease, q.Ref); err != nil {
		return nil, err
	}
	var h *Handle
	err := again(q.Ref, func() (err error) {
		h, err = s.lease(ctx, b.Caller, q)
		return err
	})
	return h, err
}

func (s *Service) lease(ctx context.Context, caller access.Caller, q LeaseRequest) (*Handle, error) {
	l, err := s.Leases.newLease(caller, q)
	if err != nil {
		return nil, err
	}
	before := s.Leases.cuts.Load()
	value, _, err := s.records.read(ctx, q.Ref, 0, func(m Secret, version int) (event.Draft, error) {
		l.Version = version
		if !m.ExpiresAt.IsZero() {
			l.Until = earlier(l.Until, m.ExpiresAt)
		}
		return draft(ctx, event.SecretLeased, l.Holder, l.Ref, leasedEvent{
			Lease: l.ID, Scope: l.Ref.Scope, Key: l.Ref.Key, Version: version, CallID: l.Call, RunID: l.Run, Until: l.Until,
		})
	})
	if err != nil {
		return nil, err
	}
	h := &Handle{leases: s.Leases, lease: l, value: value, told: map[string]bool{}, over: q.Over}
	s.Leases.add(h)
	// A cut since the read may concern this lease, which did not exist at the time of the cut.
	if s.Leases.cuts.Load() != before {
		return nil, errors.Join(ErrChanged, h.end(ctx, "returned"))
	}
	return h, nil
}

// maxInjectables bounds the secrets that are offered to programs of one caller.
const maxInjectables = 1000

// Placeholders returns the secrets that a caller's calls may send: first an agent's, then its
// user's, then the gateway's. Ended, expired and unreadable secrets are omitted. Policy is
// evaluated only for secrets that wanted selects. At most limit secrets are returned; more is
// true if there are others.
func (s *Service) Placeholders(ctx context.Context, b Borrower, limit int, wanted func(Placeholder) bool) (list []Placeholder, more bool, err error) {
	if b.Principal.IsZero() {
		return nil, false, s.guard.mayBorrow(b, access.PermSecretLease, Ref{})
	}
	placed, err := s.placed.list(ctx)
	if err != nil {
		return nil, false, err
	}
	now := s.records.now()
	for _, one := range placed {
		if !one.expires.IsZero() && !now.Before(one.expires) || one.ended || s.records.holders.ended(one.Ref, one.holder, "") != nil || !wanted(one) || s.guard.mayBorrow(b, access.PermSecretLease, one.Ref) != nil {
			continue
		}
		if len(list) == limit {
			return list, true, nil
		}
		list = append(list, one)
	}
	return list, false, nil
}

// Injectable returns the metadata of a secret that a caller may lease for a program that receives
// its value.
func (s *Service) Injectable(ctx context.Context, b Borrower, ref Ref) (Secret, error) {
	if err := ref.check(); err != nil {
		return Secret{}, err
	}
	if err := s.guard.mayBorrow(b, access.PermSecretLease, ref); err != nil {
		return Secret{}, err
	}
	o, err := s.records.get(ctx, ref)
	switch {
	case err != nil:
		return Secret{}, err
	case o.Ended != nil:
		return Secret{}, o.Ended
	case o.Expired(s.records.now()):
		return Secret{}, expired(o.Secret)
	case len(o.Hosts) > 0:
		return Secret{}, reason.Errorf(reason.InvalidInput, "the secret %s has hosts, so its value is not passed to programs", ref).
			WithRemedy("Remove it from secrets: its placeholder is in the variable that secrets.list names, and http.fetch accepts it.")
	case o.Env == "" && o.File == "":
		return Secret{}, reason.Errorf(reason.InvalidInput, "the secret %s has neither a variable nor a file for programs", ref).
			WithRemedy("Its owner sets one: `palyra vault put %s --env NAME` or `--as-file NAME`.", ref)
	}
	return o.Secret, nil
}

// Injectables returns all secrets that Injectable accepts for a caller. Unreadable secrets are
// omitted.
func (s *Service) Injectables(ctx context.Context, b Borrower) ([]Secret, error) {
	if b.Principal.IsZero() {
		return nil, s.guard.mayBorrow(b, access.PermSecretLease, Ref{})
	}
	list, err := s.records.list(ctx, Query{Limit: maxInjectables}, func(ref Ref) bool {
		return s.guard.mayBorrow(b, access.PermSecretLease, ref) == nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(m Secret) bool {
		return m.Unreadable != nil || m.Ended != nil || len(m.Hosts) > 0 || m.Env == "" && m.File == "" || m.Expired(s.records.now())
	}), nil
}
