package vault

import (
	"context"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// Placeholder is a secret that a caller's calls may have put into a header, without
// its value.
type Placeholder struct {
	Ref Ref
	// Version is the newest one.
	Version int
	Hosts   []string
	// Header is the one header in which it travels; Env the variable in which programs
	// find the placeholder, "" for none.
	Header, Env string
	Note        string

	// expires is zero for one that does not expire.
	expires time.Time
	// breadth is that of its scope.
	breadth int
	// holder is the secret's, and ended is true for one that had ended when it was read.
	holder string
	ended  bool
}

// Placeholders are the secrets that may travel for a caller's calls, those of an agent
// before those of its user, and those before the gateway's. Those that ended, expired or
// cannot be read are not among them. Policy is asked of those that are wanted alone; at most
// limit are returned, and more says that there are others.
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

// maxInjectables is how many secrets programs of one caller may be offered.
const maxInjectables = 1000

// Injectable is what is known of a secret that a caller may lease for a program that
// gets it as it is.
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
		return Secret{}, reason.Errorf(reason.InvalidInput, "the secret %s has hosts, so that no program gets it as it is", ref).
			WithRemedy("Leave it out of secrets: programs find its placeholder in the variable that secrets.list names, and http.fetch takes it.")
	case o.Env == "" && o.File == "":
		return Secret{}, reason.Errorf(reason.InvalidInput, "the secret %s has neither a variable nor a file for programs", ref).
			WithRemedy("Its owner says which: `palyra vault put %s --env NAME` or `--as-file NAME`.", ref)
	}
	return o.Secret, nil
}

// Injectables are the secrets that Injectable has for a caller. Those that cannot be
// read are not among them.
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
