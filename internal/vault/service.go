// Package vault stores secrets. Each version of a secret is sealed with its own data key, which
// the key-encryption key wraps. Its metadata are authenticated with the same data key.
// docs/format/vault.md describes the formats.
//
// Every operation has a caller. Checking policy, journaling and returning the result are one
// operation: if the event cannot be written, no value is returned.
package vault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// Judge evaluates policy. The zero Ref is the vault as a whole.
type Judge interface {
	Permit(b Borrower, p access.Permission, ref Ref) error
}

// Config holds the dependencies of a Service. All fields except Gateway, Holders, Own and Now
// are required.
type Config struct {
	Store Store
	Keys  *Wrapper
	Judge Judge
	// Gateway is the gateway's id, which exports contain.
	Gateway string
	// Holders returns the holders of secrets of agents and skills. Without it such secrets can be
	// neither put nor lent.
	Holders Holders
	// Own are the secrets that the gateway uses itself, such as the keys of its models: Gateway may
	// lease them regardless of policy.
	Own []Ref
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Service is the only access to secrets. It is safe for concurrent use.
type Service struct {
	store Store
	keys  *Wrapper
	judge Judge
	// holders is Config.Holders.
	holders Holders
	now     func() time.Time
	leases  *leases
	placed  placed
	// gateway is the gateway's id.
	gateway string
	own     []Ref
}

// New returns the vault of a store.
func New(c Config) (*Service, error) {
	if c.Store == nil || c.Keys == nil || c.Judge == nil {
		return nil, errors.New("making vault: store, keys and judge are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Holders == nil {
		c.Holders = func(Kind, string) string { return "" }
	}
	return &Service{store: c.Store, keys: c.Keys, judge: c.Judge, holders: c.Holders, now: c.Now, leases: newLeases(), gateway: c.Gateway, own: slices.Clone(c.Own)}, nil
}

// may checks policy before anything else: a caller without permission cannot find out whether a
// secret exists.
func (s *Service) may(caller access.Caller, p access.Permission, ref Ref) error {
	return s.mayBorrow(Borrower{Caller: caller}, p, ref)
}

func (s *Service) mayBorrow(b Borrower, p access.Permission, ref Ref) error {
	caller := b.Caller
	if caller.Principal.IsZero() {
		return reason.Errorf(reason.PermissionDenied, "the request to the vault has no caller")
	}
	if caller.Principal == itself {
		return s.mayItself(p, ref)
	}
	if ref.login() && (p == access.PermVaultPut || p == access.PermVaultGet) {
		return reason.Errorf(reason.PermissionDenied, "only the gateway reads and writes %s: it is its login at an upstream server", ref).
			WithRemedy("Use `palyra mcp login` and `palyra mcp logout`.")
	}
	return s.judge.Permit(b, p, ref)
}

// Gateway returns the caller for the gateway's own use. No member or credential can act as it.
func Gateway() access.Caller { return access.Caller{Principal: itself, OnBehalfOf: itself} }

// mayItself allows the gateway to lease the secrets that its configuration names for its own
// use, and to store, list and delete its logins at upstream servers. All other requests are
// refused. Policy is not evaluated: the author of the configuration decides here, and for
// logins the member that logs in. A call that uses a login still needs permission.
func (s *Service) mayItself(p access.Permission, ref Ref) error {
	if ref.login() && slices.Contains([]access.Permission{access.PermVaultPut, access.PermVaultList, access.PermVaultDelete}, p) {
		return nil
	}
	if p == access.PermSecretLease && slices.Contains(s.own, ref) {
		return nil
	}
	return reason.Errorf(reason.PermissionDenied, "the gateway itself may not %s %s", p, ref)
}

// tries is how often an operation is retried because the secret changed meanwhile.
const tries = 16

// again retries an operation that conflicted with a concurrent change.
func again(ref Ref, do func() error) error {
	for range tries {
		if err := do(); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return reason.Errorf(reason.QuotaExceeded, "the secret %s keeps changing", ref).WithRemedy("Try again.")
}

// record returns a verified secret. If its key was replaced between the two reads, the secret is
// read again.
func (s *Service) record(ctx context.Context, ref Ref) (opened, error) {
	r, err := s.store.Record(ctx, ref)
	if err != nil {
		return opened{}, err
	}
	o, err := s.openRecord(ctx, r)
	if err == nil {
		return o, nil
	}
	fresh, failed := s.store.Record(ctx, ref)
	if failed != nil || fresh.sameKeys(r) {
		return opened{}, err
	}
	return s.openRecord(ctx, fresh)
}

// Put stores a value as the next version of a secret, or changes only its metadata if value is nil.
func (s *Service) Put(ctx context.Context, caller access.Caller, ref Ref, value []byte, set Metadata) (Secret, error) {
	if err := ref.check(); err != nil {
		return Secret{}, err
	}
	if err := s.may(caller, access.PermVaultPut, ref); err != nil {
		return Secret{}, err
	}
	if err := ref.isRead(); err != nil {
		return Secret{}, err
	}
	var m Secret
	err := again(ref, func() (err error) {
		m, err = s.put(ctx, caller, ref, value, set)
		return err
	})
	if err == nil && set.Expires != nil && !m.ExpiresAt.IsZero() {
		s.cut(ref, m.ExpiresAt)
	}
	return m, err
}

func (s *Service) put(ctx context.Context, caller access.Caller, ref Ref, value []byte, set Metadata) (Secret, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	old, err := s.record(ctx, ref)
	fresh := reason.Of(err) == reason.NotFound && value != nil
	if err != nil && !fresh {
		return Secret{}, err
	}
	holder, err := s.holder(ref)
	if err != nil {
		return Secret{}, err
	}
	if old.Ended != nil {
		if value == nil {
			return Secret{}, old.Ended
		}
		// The new value starts without the metadata and versions of the former holder.
		old.Secret, fresh = Secret{Version: old.Version}, true
	}
	m := set.apply(old.Secret)
	m.Ref, m.UpdatedAt, m.Holder = ref, now, holder
	if fresh {
		m.CreatedAt = now
	}
	if err := checkMetadata(m, now); err != nil {
		return Secret{}, err
	}
	if value != nil {
		return s.putValue(ctx, caller, old, m, value)
	}
	return s.putMetadata(ctx, caller, old, m)
}

// putValue seals a value with a new data key.
func (s *Service) putValue(ctx context.Context, caller access.Caller, old opened, m Secret, value []byte) (Secret, error) {
	if err := checkValue(m, value); err != nil {
		return Secret{}, err
	}
	m.Version++
	past := Past{Version: m.Version, At: m.UpdatedAt, By: caller.Principal}
	m.Versions = append(m.Versions[max(0, len(m.Versions)-KeptVersions+1):len(m.Versions):len(m.Versions)], past)
	key, err := newKey()
	if err != nil {
		return Secret{}, err
	}
	defer clear(key)
	box, err := sealValue(key, m.Ref, past, value)
	if err != nil {
		return Secret{}, err
	}
	return m, s.keys.Wrap(ctx, About(m.Ref, m.Version), key, func(b Box) error {
		return s.keep(ctx, caller, old, m, key, Version{Number: m.Version, KEK: b.KEK, Key: b.Key, Box: box})
	})
}

// putMetadata seals metadata with the data key of the newest version. If the value is now sent in a
// header, it must be valid there.
func (s *Service) putMetadata(ctx context.Context, caller access.Caller, old opened, m Secret) (Secret, error) {
	if len(m.Hosts) > 0 {
		value, err := s.value(ctx, old, m.Versions[len(m.Versions)-1])
		if err != nil {
			return Secret{}, s.changed(ctx, old.record, err)
		}
		defer clear(value)
		if err := checkValue(m, value); err != nil {
			return Secret{}, err
		}
	}
	v, _ := old.record.version(m.Version)
	key, err := s.dataKey(ctx, m.Ref, v)
	if err != nil {
		return Secret{}, s.changed(ctx, old.record, err)
	}
	defer clear(key)
	return m, s.keep(ctx, caller, old, m, key)
}

// keep stores a secret and its event.
func (s *Service) keep(ctx context.Context, caller access.Caller, old opened, m Secret, key []byte, added ...Version) error {
	text, seal, err := sealMetadata(key, m)
	if err != nil {
		return err
	}
	r := Record{Ref: m.Ref, Metadata: text, Seal: seal, Newest: m.Version, Placed: len(m.Hosts) > 0}
	for _, p := range m.Versions[:len(m.Versions)-len(added)] {
		r.Versions = append(r.Versions, Version{Number: p.Version})
	}
	r.Versions = append(r.Versions, added...)
	e, err := draft(ctx, event.SecretPut, caller.Principal, m.Ref, putEvent{
		Scope: m.Ref.Scope, Key: m.Ref.Key, Version: m.Version, NewValue: len(added) > 0, Hosts: m.Hosts, Header: m.Header, Env: m.Env, File: m.File, ExpiresAt: m.ExpiresAt, Holder: m.Holder, Seal: seal,
	})
	if err != nil {
		return err
	}
	defer s.placed.changed(m.Ref) // regardless of the store's result
	return s.store.PutRecord(context.WithoutCancel(ctx), r, old.record.Seal, e)
}

// Get returns the metadata of a secret.
func (s *Service) Get(ctx context.Context, caller access.Caller, ref Ref) (Secret, error) {
	if err := ref.check(); err != nil {
		return Secret{}, err
	}
	if err := s.may(caller, access.PermVaultList, ref); err != nil {
		return Secret{}, err
	}
	o, err := s.record(ctx, ref)
	return withheld(o.Secret), err
}

// Reveal returns a value, which the caller clears; version 0 is the newest.
func (s *Service) Reveal(ctx context.Context, caller access.Caller, ref Ref, version int) (value []byte, m Secret, err error) {
	if err := ref.check(); err != nil {
		return nil, Secret{}, err
	}
	if err := s.may(caller, access.PermVaultGet, ref); err != nil {
		return nil, Secret{}, err
	}
	return s.read(ctx, ref, version, func(m Secret, version int) (event.Draft, error) {
		return draft(ctx, event.SecretRead, caller.Principal, ref, readEvent{Scope: ref.Scope, Key: ref.Key, Version: version})
	})
}

// read decrypts a value and journals its release. No other function releases values.
func (s *Service) read(ctx context.Context, ref Ref, version int, says func(Secret, int) (event.Draft, error)) (value []byte, m Secret, err error) {
	err = again(ref, func() (err error) {
		value, m, err = s.readOnce(ctx, ref, version, says)
		return err
	})
	return value, m, err
}

func (s *Service) readOnce(ctx context.Context, ref Ref, version int, says func(Secret, int) (event.Draft, error)) ([]byte, Secret, error) {
	o, err := s.record(ctx, ref)
	if err != nil {
		return nil, Secret{}, err
	}
	if o.Ended != nil {
		return nil, Secret{}, o.Ended
	}
	if o.Expired(s.now()) {
		return nil, Secret{}, expired(o.Secret)
	}
	past, err := o.past(version)
	if err != nil {
		return nil, Secret{}, err
	}
	value, err := s.value(ctx, o, past)
	if err != nil {
		return nil, Secret{}, s.changed(ctx, o.record, err)
	}
	e, err := says(o.Secret, past.Version)
	if err == nil {
		err = s.store.UseRecord(context.WithoutCancel(ctx), ref, o.record.Seal, e)
	}
	if err != nil {
		clear(value)
		return nil, Secret{}, err
	}
	return value, o.Secret, nil
}

// changed returns ErrChanged if the error was caused by a concurrent change.
func (s *Service) changed(ctx context.Context, r Record, err error) error {
	if fresh, failed := s.store.Record(ctx, r.Ref); failed == nil && !fresh.sameKeys(r) {
		return ErrChanged
	}
	return err
}

// past returns a stored version; 0 is the newest.
func (s Secret) past(version int) (Past, error) {
	for _, p := range s.Versions {
		if p.Version == version || version == 0 && p.Version == s.Version {
			return p, nil
		}
	}
	return Past{}, reason.Errorf(reason.NotFound, "version %[2]d of the secret %[1]s does not exist", s.Ref, version).
		WithRemedy("List the versions with `palyra vault history %s`.", s.Ref)
}

func expired(m Secret) error {
	return reason.Errorf(reason.SecretExpired, "the secret %s expired at %s", m.Ref, m.ExpiresAt.Format(time.RFC3339)).
		WithRemedy("Put a new value: `palyra vault put %s --expires DURATION`.", m.Ref)
}

// Remove deletes a secret with all its versions, and ends its leases.
func (s *Service) Remove(ctx context.Context, caller access.Caller, ref Ref) error {
	if err := ref.check(); err != nil {
		return err
	}
	if err := s.may(caller, access.PermVaultDelete, ref); err != nil {
		return err
	}
	e, err := draft(ctx, event.SecretRemoved, caller.Principal, ref, removedEvent(ref))
	if err != nil {
		return err
	}
	defer s.placed.changed(ref) // regardless of the store's result
	if err := s.store.RemoveRecord(context.WithoutCancel(ctx), ref, e); err != nil {
		return err
	}
	s.leases.cuts.Add(1)
	return s.end(ctx, "removed", func(l Lease) bool { return l.Ref == ref })
}

// Page selects a page of a list.
type Page struct {
	// Scope is the only scope to list; "" is every scope that the caller may see.
	Scope string
	After Ref
	Limit int
}

// List returns the secrets that the caller may see, by scope and key. An unreadable secret is
// listed by its name with the problem. While the vault is locked, List returns an error.
func (s *Service) List(ctx context.Context, caller access.Caller, p Page) ([]Secret, error) {
	if p.Scope != "" {
		if _, _, err := ParseScope(p.Scope); err != nil {
			return nil, err
		}
	}
	if err := s.may(caller, access.PermVaultList, Ref{}); err != nil {
		return nil, err
	}
	list, err := s.list(ctx, Query{Scope: p.Scope, After: p.After, Limit: p.Limit}, func(ref Ref) bool {
		return s.may(caller, access.PermVaultList, ref) == nil
	})
	for i, m := range list {
		list[i] = withheld(m)
	}
	return list, err
}

// list returns up to q.Limit secrets that the caller may see.
func (s *Service) list(ctx context.Context, q Query, seen func(Ref) bool) ([]Secret, error) {
	var list []Secret
	for len(list) < q.Limit {
		records, err := s.store.Records(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if !seen(r.Ref) {
				continue
			}
			m, err := s.listed(ctx, r)
			if err != nil {
				return nil, err
			}
			if list = append(list, m); len(list) == q.Limit {
				return list, nil
			}
		}
		if len(records) < q.Limit {
			return list, nil
		}
		q.After = records[len(records)-1].Ref
	}
	return list, nil
}

// listed converts a secret for lists.
func (s *Service) listed(ctx context.Context, r Record) (Secret, error) {
	o, err := s.openRecord(ctx, r)
	if code := reason.Of(err); code == reason.SecretUnreadable || code == reason.VaultKeyMissing {
		if o, err = s.record(ctx, r.Ref); err == nil || reason.Of(err) != code {
			return o.Secret, err
		}
		return Secret{Ref: r.Ref, Unreadable: reason.Known(err, reason.SecretUnreadable)}, nil
	}
	if err != nil {
		return Secret{}, fmt.Errorf("listing secrets: %w", err)
	}
	return o.Secret, nil
}
