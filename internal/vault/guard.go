package vault

import (
	"slices"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// Judge evaluates policy. The zero Ref is the vault as a whole.
type Judge interface {
	Permit(b Borrower, p access.Permission, ref Ref) error
}

// itself is the gateway's own principal.
var itself = access.Principal{Kind: access.KindService, Name: "palyrad"}

// Gateway returns the caller for the gateway's own use. No member or credential can act as it.
func Gateway() access.Caller { return access.Caller{Principal: itself, OnBehalfOf: itself} }

// guard decides which operations a caller may request. Every operation MUST call it before it reads
// the store: a caller without permission cannot find out whether a secret exists.
type guard struct {
	judge Judge
	// own is Config.Own.
	own []Ref
}

func (g guard) may(caller access.Caller, p access.Permission, ref Ref) error {
	return g.mayBorrow(Borrower{Caller: caller}, p, ref)
}

func (g guard) mayBorrow(b Borrower, p access.Permission, ref Ref) error {
	caller := b.Caller
	if caller.Principal.IsZero() {
		return reason.Errorf(reason.PermissionDenied, "the request to the vault has no caller")
	}
	if caller.Principal == itself {
		return g.mayItself(p, ref)
	}
	if ref.login() && (p == access.PermVaultPut || p == access.PermVaultGet) {
		return reason.Errorf(reason.PermissionDenied, "only the gateway reads and writes %s: it is its login at an upstream server", ref).
			WithRemedy("Use `palyra mcp login` and `palyra mcp logout`.")
	}
	return g.judge.Permit(b, p, ref)
}

// mayItself allows the gateway to lease the secrets that its configuration names for its own
// use, and to store, list and delete its logins at upstream servers. All other requests are
// refused. Policy is not evaluated: the author of the configuration decides here, and for
// logins the member that logs in. A call that uses a login still needs permission.
func (g guard) mayItself(p access.Permission, ref Ref) error {
	if ref.login() && slices.Contains([]access.Permission{access.PermVaultPut, access.PermVaultList, access.PermVaultDelete}, p) {
		return nil
	}
	if p == access.PermSecretLease && slices.Contains(g.own, ref) {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "the gateway itself may not %s %s", p, ref)
}
