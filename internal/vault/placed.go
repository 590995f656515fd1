package vault

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

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

// placed is a cache of the secrets that have hosts, each verified once: verifying them all for
// each call would be slow. Only the Service changes the store, and it reports each changed
// secret. A direct change of the file is detected when the secret itself is read, because a
// lease verifies the record again. The cached entry was authentic when it was read.
type placed struct {
	records *records
	// mu is held while known is updated.
	mu sync.Mutex
	// read is true once the whole store was read; known is ordered, and immutable once returned.
	read  bool
	known []Placeholder

	changing sync.Mutex
	// stale has the secrets that changed since they were read, staleScopes the scopes of which all
	// did.
	stale       map[Ref]bool
	staleScopes map[string]bool
}

// changed marks a secret as changed.
func (p *placed) changed(ref Ref) {
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.stale == nil {
		p.stale = map[Ref]bool{}
	}
	p.stale[ref] = true
}

// changedIn marks all secrets of a scope as changed.
func (p *placed) changedIn(scope string) {
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.staleScopes == nil {
		p.staleScopes = map[string]bool{}
	}
	p.staleScopes[scope] = true
}

// taken returns and clears the changed secrets. The caller holds p.mu.
func (p *placed) taken() map[Ref]bool {
	p.changing.Lock()
	defer p.changing.Unlock()
	stale := p.stale
	for _, one := range p.known {
		if p.staleScopes[one.Ref.Scope] {
			if stale == nil {
				stale = map[Ref]bool{}
			}
			stale[one.Ref] = true
		}
	}
	p.stale, p.staleScopes = nil, nil
	return stale
}

// list returns all secrets that have hosts, narrower scopes first. While the vault is locked it
// returns an error.
func (p *placed) list(ctx context.Context) ([]Placeholder, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.records.keys.keys.Current(ctx); err != nil {
		return nil, err
	}
	if !p.read {
		if err := p.readAll(ctx); err != nil {
			return nil, err
		}
	}
	stale := p.taken()
	if len(stale) == 0 {
		return p.known, nil
	}
	fresh := slices.Clone(p.known)
	for ref := range stale {
		one, err := p.now(ctx, ref)
		if err != nil {
			for left := range stale {
				p.changed(left)
			}
			return nil, err
		}
		at, found := slices.BinarySearchFunc(fresh, Placeholder{Ref: ref, breadth: breadth(ref)}, inOrder)
		if found {
			fresh = slices.Delete(fresh, at, at+1)
		}
		if one != nil {
			fresh = slices.Insert(fresh, at, *one)
		}
	}
	p.known = fresh
	return fresh, nil
}

// readAll reads every secret that has hosts.
func (p *placed) readAll(ctx context.Context) error {
	p.taken() // later changes are read again
	const page = 500
	var known []Placeholder
	for q := (Query{Placed: true, Limit: page}); ; {
		list, err := p.records.list(ctx, q, func(Ref) bool { return true })
		if err != nil {
			return err
		}
		for _, m := range list {
			if one := placeholderOf(m); one != nil {
				known = append(known, *one)
			}
		}
		if len(list) < page {
			slices.SortFunc(known, inOrder)
			p.known, p.read = known, true
			return nil
		}
		q.After = list[page-1].Ref
	}
}

// now reads one secret; nil if it was removed, has no hosts or cannot be opened.
func (p *placed) now(ctx context.Context, ref Ref) (*Placeholder, error) {
	o, err := p.records.get(ctx, ref)
	switch reason.Of(err) {
	case "":
		return placeholderOf(o.Secret), nil
	case reason.NotFound, reason.SecretUnreadable, reason.VaultKeyMissing:
		return nil, nil
	}
	return nil, err
}

func placeholderOf(m Secret) *Placeholder {
	if m.Unreadable != nil || len(m.Hosts) == 0 {
		return nil
	}
	return &Placeholder{Ref: m.Ref, Version: m.Version, Hosts: m.Hosts, Header: m.Header, Env: m.Env, Note: m.Note, expires: m.ExpiresAt, breadth: breadth(m.Ref), holder: m.Holder, ended: m.Ended != nil}
}

// inOrder orders narrower scopes first.
func inOrder(a, b Placeholder) int {
	return cmp.Or(cmp.Compare(a.breadth, b.breadth), cmp.Compare(a.Ref.Scope, b.Ref.Scope), cmp.Compare(a.Ref.Key, b.Ref.Key))
}

// breadth orders scopes from the narrowest to the widest.
func breadth(r Ref) int {
	switch kind, _, err := ParseScope(r.Scope); {
	case err != nil || kind == Global:
		return 2
	case kind == User:
		return 1
	}
	return 0
}
