//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"palyra/internal/core/access"
	"palyra/internal/store/sqlite"
	"palyra/internal/vault"
	"palyra/internal/vault/kek"
)

// secretsCost is goal 24: the cost of reading and of storing a secret, among 10,000 secrets. Each
// is one event that is durable before the response.
func secretsCost(ctx context.Context, b *bench) (_ []*line, err error) {
	const others = 10_000
	s, err := b.newStore(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.db.Close(context.WithoutCancel(ctx))) }()
	dir, err := b.path("keys")
	if err != nil {
		return nil, err
	}
	keys, err := kek.Open(kek.Options{Dir: dir, Gateway: "bench", Backend: kek.InFile})
	if err != nil {
		return nil, err
	}
	kept, err := vault.New(vault.Config{Store: sqlite.NewSecrets(s.db), Keys: vault.NewWrapper(keys, sqlite.NewSecrets(s.db)), Judge: permitting{}})
	if err != nil {
		return nil, err
	}
	ann := access.Caller{Principal: access.User("ann")}
	put := func(n int) error {
		_, err := kept.Put(ctx, ann, vault.Ref{Scope: "global", Key: fmt.Sprintf("k%05d", n)}, []byte("a value of thirty-two characters"), vault.Metadata{})
		return err
	}
	if err := sideBySide(others, put); err != nil {
		return nil, err
	}
	file, err := b.newGrowing()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	gets := &line{goal: "24", what: "value of a secret, p50", unit: "us", limit: atMost(2000)}
	puts := &line{goal: "24", what: "secret kept, p50", unit: "us", limit: atMost(2000)}
	n := 0
	return []*line{gets, puts}, b.each(ctx, func() error {
		floor, err := p50(b.size.appends, file.append)
		if err != nil {
			return err
		}
		got, err := p50(b.size.appends, func() error {
			n += 7919
			value, _, err := kept.Reveal(ctx, ann, vault.Ref{Scope: "global", Key: fmt.Sprintf("k%05d", n%others)}, 0)
			clear(value)
			return err
		})
		if err != nil {
			return err
		}
		took, err := p50(b.size.appends, func() error { n += 7919; return put(n % others) })
		gets.add(0, got)
		puts.add(0, took)
		gets.note = fmt.Sprintf("a durable append of %d bytes for comparison: %.0f us", eventSize, floor)
		return err
	})
}

// sideBySide runs a function n times, with many in parallel.
func sideBySide(n int, do func(int) error) error {
	const callers = 64
	failed := make([]error, callers)
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := c; i < n && failed[c] == nil; i += callers {
				failed[c] = do(i)
			}
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// permitting permits everything: policy has its own goal.
type permitting struct{}

func (permitting) Permit(vault.Borrower, access.Permission, vault.Ref) error { return nil }
