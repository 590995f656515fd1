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
	"slices"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

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
	Leases  *Leases
	Keys    *KeyManager
	guard   guard
	records *records
	placed  placed
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
	g := guard{c.Judge, slices.Clone(c.Own)}
	r := &records{c.Store, c.Keys, c.Holders, c.Now}
	return &Service{
		Leases: newLeases(g, c.Store, c.Now), Keys: &KeyManager{g, c.Store, c.Keys, c.Gateway, c.Now},
		guard: g, records: r, placed: placed{records: r},
	}, nil
}

// Put stores a value as the next version of a secret, or changes only its metadata if value is nil.
func (s *Service) Put(ctx context.Context, caller access.Caller, ref Ref, value []byte, set Metadata) (Secret, error) {
	if err := ref.check(); err != nil {
		return Secret{}, err
	}
	if err := s.guard.may(caller, access.PermVaultPut, ref); err != nil {
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
		s.Leases.cut(ref, m.ExpiresAt)
	}
	return m, err
}

func (s *Service) put(ctx context.Context, caller access.Caller, ref Ref, value []byte, set Metadata) (Secret, error) {
	now := s.records.now().UTC().Truncate(time.Microsecond)
	old, err := s.records.get(ctx, ref)
	fresh := reason.Of(err) == reason.NotFound && value != nil
	if err != nil && !fresh {
		return Secret{}, err
	}
	holder, err := s.records.holders.of(ref)
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
	return m, s.records.keys.Wrap(ctx, About(m.Ref, m.Version), key, func(b Box) error {
		return s.keep(ctx, caller, old, m, key, Version{Number: m.Version, KEK: b.KEK, Key: b.Key, Box: box})
	})
}

// putMetadata seals metadata with the data key of the newest version. If the value is now sent in a
// header, it must be valid there.
func (s *Service) putMetadata(ctx context.Context, caller access.Caller, old opened, m Secret) (Secret, error) {
	if len(m.Hosts) > 0 {
		value, err := s.records.value(ctx, old, m.Versions[len(m.Versions)-1])
		if err != nil {
			return Secret{}, s.records.changed(ctx, old.record, err)
		}
		defer clear(value)
		if err := checkValue(m, value); err != nil {
			return Secret{}, err
		}
	}
	v, _ := old.record.version(m.Version)
	key, err := s.records.dataKey(ctx, m.Ref, v)
	if err != nil {
		return Secret{}, s.records.changed(ctx, old.record, err)
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
	return s.records.store.PutRecord(context.WithoutCancel(ctx), r, old.record.Seal, e)
}

// Get returns the metadata of a secret.
func (s *Service) Get(ctx context.Context, caller access.Caller, ref Ref) (Secret, error) {
	if err := ref.check(); err != nil {
		return Secret{}, err
	}
	if err := s.guard.may(caller, access.PermVaultList, ref); err != nil {
		return Secret{}, err
	}
	o, err := s.records.get(ctx, ref)
	return withheld(o.Secret), err
}

// Reveal returns a value, which the caller clears; version 0 is the newest.
func (s *Service) Reveal(ctx context.Context, caller access.Caller, ref Ref, version int) (value []byte, m Secret, err error) {
	if err := ref.check(); err != nil {
		return nil, Secret{}, err
	}
	if err := s.guard.may(caller, access.PermVaultGet, ref); err != nil {
		return nil, Secret{}, err
	}
	return s.records.read(ctx, ref, version, func(m Secret, version int) (event.Draft, error) {
		return draft(ctx, event.SecretRead, caller.Principal, ref, readEvent{Scope: ref.Scope, Key: ref.Key, Version: version})
	})
}

// Remove deletes a secret with all its versions, and ends its leases.
func (s *Service) Remove(ctx context.Context, caller access.Caller, ref Ref) error {
	if err := ref.check(); err != nil {
		return err
	}
	if err := s.guard.may(caller, access.PermVaultDelete, ref); err != nil {
		return err
	}
	e, err := draft(ctx, event.SecretRemoved, caller.Principal, ref, removedEvent(ref))
	if err != nil {
		return err
	}
	defer s.placed.changed(ref) // regardless of the store's result
	if err := s.records.store.RemoveRecord(context.WithoutCancel(ctx), ref, e); err != nil {
		return err
	}
	return s.Leases.revoke(ctx, "removed", func(l Lease) bool { return l.Ref == ref })
}

// EndOf ends the leases of a caller's calls and runs. It is called when the caller has lost
// permissions or a credential, or has another owner. The caller's active calls must request new
// leases.
func (s *Service) EndOf(ctx context.Context, holder access.Principal) error {
	if holder.Kind == access.KindAgent {
		s.placed.changedIn(holder.String())
	}
	return s.Leases.revoke(ctx, "holder", func(l Lease) bool { return l.Holder == holder })
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
	if err := s.guard.may(caller, access.PermVaultList, Ref{}); err != nil {
		return nil, err
	}
	list, err := s.records.list(ctx, Query{Scope: p.Scope, After: p.After, Limit: p.Limit}, func(ref Ref) bool {
		return s.guard.may(caller, access.PermVaultList, ref) == nil
	})
	for i, m := range list {
		list[i] = withheld(m)
	}
	return list, err
}
