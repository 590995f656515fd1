package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// records reads the secrets of the store. It verifies each record before it returns anything of it.
type records struct {
	store Store
	keys  *Wrapper
	// holders is Config.Holders.
	holders Holders
	now     func() time.Time
}

// opened is a record with verified metadata.
type opened struct {
	Secret

	record Record
}

// get returns a verified secret. If its key was replaced between the two reads, the secret is
// read again.
func (r *records) get(ctx context.Context, ref Ref) (opened, error) {
	stored, err := r.store.Record(ctx, ref)
	if err != nil {
		return opened{}, err
	}
	o, err := r.open(ctx, stored)
	if err == nil {
		return o, nil
	}
	fresh, failed := r.store.Record(ctx, ref)
	if failed != nil || fresh.sameKeys(stored) {
		return opened{}, err
	}
	return r.open(ctx, fresh)
}

// open verifies the metadata of a record.
func (r *records) open(ctx context.Context, stored Record) (opened, error) {
	v, ok := stored.version(stored.Newest)
	if !ok {
		return opened{}, unreadable(stored.Ref, errOpen)
	}
	key, err := r.dataKey(ctx, stored.Ref, v)
	if err != nil {
		return opened{}, err
	}
	defer clear(key)
	m, err := openMetadata(key, stored)
	if err != nil {
		return opened{}, unreadable(stored.Ref, err)
	}
	if err := stored.asTold(); err != nil {
		return opened{}, unreadable(stored.Ref, err).
			WithRemedy("An older state of the store was restored: find out who can write the store. Then run `palyra vault rm %s`, and put the secret again.", stored.Ref)
	}
	m.Ended = r.holders.ended(m.Ref, m.Holder, stored.Last.Code)
	return opened{m, stored}, nil
}

// dataKey unwraps the data key of a version.
func (r *records) dataKey(ctx context.Context, ref Ref, v Version) ([]byte, error) {
	key, err := r.keys.Unwrap(ctx, Box{About: About(ref, v.Number), KEK: v.KEK, Key: v.Key})
	if err != nil {
		return nil, keyTrouble(ref, err)
	}
	if len(key) != keySize {
		clear(key)
		return nil, unreadable(ref, errOpen)
	}
	return key, nil
}

// value decrypts a version of a verified record.
func (r *records) value(ctx context.Context, o opened, past Past) ([]byte, error) {
	v, ok := o.record.version(past.Version)
	if !ok {
		return nil, unreadable(o.Ref, errOpen)
	}
	key, err := r.dataKey(ctx, o.Ref, v)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	value, err := openValue(key, o.Ref, past, v.Box)
	if err != nil {
		return nil, unreadable(o.Ref, err)
	}
	return value, nil
}

// read decrypts a value and journals its release. No other function releases values.
func (r *records) read(ctx context.Context, ref Ref, version int, says func(Secret, int) (event.Draft, error)) (value []byte, m Secret, err error) {
	err = again(ref, func() (err error) {
		value, m, err = r.readOnce(ctx, ref, version, says)
		return err
	})
	return value, m, err
}

func (r *records) readOnce(ctx context.Context, ref Ref, version int, says func(Secret, int) (event.Draft, error)) ([]byte, Secret, error) {
	o, err := r.get(ctx, ref)
	if err != nil {
		return nil, Secret{}, err
	}
	if o.Ended != nil {
		return nil, Secret{}, o.Ended
	}
	if o.Expired(r.now()) {
		return nil, Secret{}, expired(o.Secret)
	}
	past, err := o.past(version)
	if err != nil {
		return nil, Secret{}, err
	}
	value, err := r.value(ctx, o, past)
	if err != nil {
		return nil, Secret{}, r.changed(ctx, o.record, err)
	}
	e, err := says(o.Secret, past.Version)
	if err == nil {
		err = r.store.UseRecord(context.WithoutCancel(ctx), ref, o.record.Seal, e)
	}
	if err != nil {
		clear(value)
		return nil, Secret{}, err
	}
	return value, o.Secret, nil
}

// changed returns ErrChanged if the error was caused by a concurrent change.
func (r *records) changed(ctx context.Context, stored Record, err error) error {
	if fresh, failed := r.store.Record(ctx, stored.Ref); failed == nil && !fresh.sameKeys(stored) {
		return ErrChanged
	}
	return err
}

// list returns up to q.Limit secrets that the caller may see.
func (r *records) list(ctx context.Context, q Query, seen func(Ref) bool) ([]Secret, error) {
	var list []Secret
	for len(list) < q.Limit {
		stored, err := r.store.Records(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, one := range stored {
			if !seen(one.Ref) {
				continue
			}
			m, err := r.listed(ctx, one)
			if err != nil {
				return nil, err
			}
			if list = append(list, m); len(list) == q.Limit {
				return list, nil
			}
		}
		if len(stored) < q.Limit {
			return list, nil
		}
		q.After = stored[len(stored)-1].Ref
	}
	return list, nil
}

// listed converts a secret for lists.
func (r *records) listed(ctx context.Context, stored Record) (Secret, error) {
	o, err := r.open(ctx, stored)
	if code := reason.Of(err); code == reason.SecretUnreadable || code == reason.VaultKeyMissing {
		if o, err = r.get(ctx, stored.Ref); err == nil || reason.Of(err) != code {
			return o.Secret, err
		}
		return Secret{Ref: stored.Ref, Unreadable: reason.Known(err, reason.SecretUnreadable)}, nil
	}
	if err != nil {
		return Secret{}, fmt.Errorf("listing secrets: %w", err)
	}
	return o.Secret, nil
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
