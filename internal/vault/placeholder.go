package vault

import (
	"context"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// Placeholder is a secret that a caller's calls may send in a header, without its value.
type Placeholder struct {
	Ref Ref
	// Version is the newest version.
	Version int
	Hosts   []string
	// Header is the only header in which the secret is sent; Env the variable with the placeholder
	// for programs, "" for none.
	Header, Env string
	Note        string

	// expires is zero for a secret that does not expire.
	expires time.Time
	// breadth is the breadth of the secret's scope.
	breadth int
	// holder is the secret's holder, and ended is true if the secret had ended when it was read.
	holder string
	ended  bool
}

// Placeholders returns the secrets that a caller's calls may send: first an agent's, then its
// user's, then the gateway's. Ended, expired and unreadable secrets are omitted. Policy is
// evaluated only for secrets that wanted selects. At most limit secrets are returned; more is
// true if there are others.
func (s *Service) Placeholders(ctx context.Context, b Borrower, limit int, wanted func(Placeholder) bool) (list []Placeholder, more bool, err error) {
	if b.Principal.IsZero() {
		return nil, false, s.mayBorrow(b, access.PermSecretLease, Ref{})
	}
	placed, err := s.placed.list(ctx, s)
	if err != nil {
		return nil, false, err
	}
	now := s.now()
	for _, one := range placed {
		if !one.expires.IsZero() && !now.Before(one.expires) || one.ended || s.ended(one.Ref, one.holder, "") != nil || !wanted(one) || s.mayBorrow(b, access.PermSecretLease, one.Ref) != nil {
			continue
		}
		if len(list) == limit {
			return list, true, nil
		}
		list = append(list, one)
	}
	return list, false, nil
}

// maxInjectables bounds the secrets that are offered to programs of one caller.
const maxInjectables = 1000

// Injectable returns the metadata of a secret that a caller may lease for a program that receives
// its value.
func (s *Service) Injectable(ctx context.Context, b Borrower, ref Ref) (Secret, error) {
	if err := ref.check(); err != nil {
		return Secret{}, err
	}
	if err := s.mayBorrow(b, access.PermSecretLease, ref); err != nil {
		return Secret{}, err
	}
	o, err := s.record(ctx, ref)
	switch {
	case err != nil:
		return Secret{}, err
	case o.Ended != nil:
		return Secret{}, o.Ended
	case o.Expired(s.now()):
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
		return nil, s.mayBorrow(b, access.PermSecretLease, Ref{})
	}
	list, err := s.list(ctx, Query{Limit: maxInjectables}, func(ref Ref) bool {
		return s.mayBorrow(b, access.PermSecretLease, ref) == nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(m Secret) bool {
		return m.Unreadable != nil || m.Ended != nil || len(m.Hosts) > 0 || m.Env == "" && m.File == "" || m.Expired(s.now())
	}), nil
}
