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

// batch is the number of data keys that are wrapped again in one unit.
const batch = 256

// Rekeyed is the result of a rekey.
type Rekeyed struct {
	// Key is the id of the current key, Dropped are the ids of the permanently deleted keys.
	Key     string
	Dropped []string
	// Rewrapped is the number of data keys that were wrapped again.
	Rewrapped int
	// Unreadable are the data keys that could not be unwrapped, by About. While it is not empty,
	// no key is dropped, because the damage may be repaired.
	Unreadable []string
}

type rekeyEvent struct {
	Phase      string   `json:"phase"`
	KeyID      string   `json:"key_id,omitempty"`
	OldKeyIDs  []string `json:"old_key_ids"`
	Rewrapped  int      `json:"rewrapped"`
	Unreadable int      `json:"unreadable"`
}

// KeyManager replaces, unlocks and exports the key-encryption keys for operators. It is safe for
// concurrent use.
type KeyManager struct {
	guard guard
	store Store
	keys  *Wrapper
	// gateway is the gateway's id, which exports contain.
	gateway string
	now     func() time.Time
}

// Rekey creates another key-encryption key, wraps every data key with it, and drops the previous
// keys. An interruption loses nothing, and Resume continues.
func (m *KeyManager) Rekey(ctx context.Context, caller access.Caller) (Rekeyed, error) {
	if err := m.guard.may(caller, access.PermVaultRekey, Ref{}); err != nil {
		return Rekeyed{}, err
	}
	w := m.keys
	if !w.rekeying.TryLock() {
		return Rekeyed{}, reason.Errorf(reason.AlreadyExists, "the vault is already being rekeyed").WithRemedy("Wait; `palyra vault status` shows the progress.")
	}
	defer w.rekeying.Unlock()
	old, err := w.keys.IDs(ctx)
	if err != nil {
		return Rekeyed{}, err
	}
	if err := m.journalRekey(ctx, caller.Principal, rekeyEvent{Phase: "begun", OldKeyIDs: old}); err != nil {
		return Rekeyed{}, err
	}
	// The rekey continues if its caller is cancelled.
	ctx = context.WithoutCancel(ctx)
	if err := w.rotate(ctx); err != nil {
		return Rekeyed{}, err
	}
	return m.finish(ctx, caller.Principal)
}

// Resume completes an interrupted rekey. It has no effect if none was interrupted. It acts as
// the gateway itself.
func (m *KeyManager) Resume(ctx context.Context) (Rekeyed, error) {
	m.keys.rekeying.Lock()
	defer m.keys.rekeying.Unlock()
	old, current, err := m.keys.old(ctx)
	if err != nil || len(old) == 0 {
		return Rekeyed{Key: current}, err
	}
	return m.finish(ctx, itself)
}

// finish wraps all data keys with the current key, and drops the other keys once the rekey is
// journaled. The caller holds rekeying.
func (m *KeyManager) finish(ctx context.Context, by access.Principal) (Rekeyed, error) {
	w := m.keys
	old, current, err := w.old(ctx)
	if err != nil {
		return Rekeyed{}, err
	}
	done := Rekeyed{Key: current}
	for _, kind := range w.kinds {
		if err := w.rewrap(ctx, kind, &done); err != nil {
			return done, fmt.Errorf("rekeying: %w", err)
		}
	}
	if err := w.passed("rewrapped"); err != nil {
		return done, err
	}
	if err := m.journalRekey(ctx, by, rekeyEvent{
		Phase: "ended", KeyID: current, OldKeyIDs: old, Rewrapped: done.Rewrapped, Unreadable: len(done.Unreadable),
	}); err != nil {
		return done, err
	}
	if len(done.Unreadable) > 0 {
		return done, nil
	}
	if err := w.passed("journaled"); err != nil {
		return done, err
	}
	done.Dropped = old
	return done, w.keys.Drop(ctx, old...)
}

func (m *KeyManager) journalRekey(ctx context.Context, by access.Principal, payload rekeyEvent) error {
	e, err := event.DraftOf(event.VaultRekeyed, by.String(), payload.KeyID, payload)
	if err == nil {
		e, err = e.By(access.DeviceOf(ctx))
	}
	if err != nil {
		return err
	}
	return m.store.Journal(context.WithoutCancel(ctx), e)
}

// rotate makes another key current. When it returns, every key wrapped with the previous one has
// been stored.
func (w *Wrapper) rotate(ctx context.Context) error {
	w.rotating.Lock()
	defer w.rotating.Unlock()
	if err := w.passed("begun"); err != nil {
		return err
	}
	if _, err := w.keys.Rotate(ctx); err != nil {
		return fmt.Errorf("making another key: %w", err)
	}
	return w.passed("rotated")
}

// old returns the keys other than the current one.
func (w *Wrapper) old(ctx context.Context) (old []string, current string, err error) {
	if current, err = w.keys.Current(ctx); err != nil {
		return nil, "", err
	}
	ids, err := w.keys.IDs(ctx)
	return slices.DeleteFunc(ids, func(id string) bool { return id == current }), current, err
}

// rewrap wraps the data keys of one kind with the current key.
func (w *Wrapper) rewrap(ctx context.Context, kind Boxes, done *Rekeyed) error {
	for after := (Box{}); ; {
		stale, err := kind.StaleBoxes(ctx, done.Key, after, batch)
		if err != nil || len(stale) == 0 {
			return err
		}
		after = stale[len(stale)-1]
		var old, fresh []Box
		for _, b := range stale {
			switch f, err := w.again(ctx, b); reason.Of(err) {
			case "":
				old, fresh = append(old, b), append(fresh, f)
			case reason.SecretUnreadable, reason.VaultKeyMissing:
				done.Unreadable = append(done.Unreadable, b.About)
			default:
				return err
			}
		}
		if err := kind.ReplaceBoxes(ctx, old, fresh); err != nil {
			return err
		}
		done.Rewrapped += len(fresh)
		if err := w.passed("batch"); err != nil {
			return err
		}
	}
}

// again wraps a data key with the current key.
func (w *Wrapper) again(ctx context.Context, b Box) (Box, error) {
	key, err := w.Unwrap(ctx, b)
	if err != nil {
		return Box{}, err
	}
	defer clear(key)
	id, box, err := w.keys.Wrap(ctx, b.About, key)
	return Box{About: b.About, KEK: id, Key: box}, err
}

// Unlock unlocks the keys with a passphrase.
func (m *KeyManager) Unlock(ctx context.Context, caller access.Caller, passphrase []byte) error {
	if err := m.guard.may(caller, access.PermVaultRekey, Ref{}); err != nil {
		return err
	}
	if len(passphrase) == 0 {
		return errors.New("unlocking the vault: no passphrase")
	}
	return m.keys.keys.Unlock(ctx, passphrase)
}
