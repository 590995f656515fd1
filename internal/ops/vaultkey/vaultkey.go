// Package vaultkey opens the vault's keys of a gateway by its settings, journals their location,
// and moves them (`palyrad vault move`).
package vaultkey

import (
	"context"
	"log/slog"
	"os"

	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/evidence/journal"
	"palyra/internal/vault/kek"
)

// Subject is the subject of the vault key's events.
const Subject = "vault key"

// pinned is the payload of event.VaultKeyPinned.
type pinned struct {
	Backend string `json:"backend"`
	ID      string `json:"id"`
}

// Open opens the vault's keys. The journal records whether the vault had keys before. log may be
// nil.
func Open(cfg *config.Config, gateway string, store journal.Store, log *slog.Logger) (*kek.Ring, error) {
	o := settings(cfg, gateway)
	o.Log, o.Journal = log, record{store}
	return kek.Open(o)
}

// Examine returns the state of the vault's keys without changing anything.
func Examine(ctx context.Context, cfg *config.Config, gateway string) kek.Status {
	return kek.Examine(ctx, settings(cfg, gateway))
}

// Carry returns a portable copy of the vault's keys, and changes nothing.
func Carry(ctx context.Context, cfg *config.Config, gateway string) (*kek.Portable, error) {
	return kek.Carry(ctx, settings(cfg, gateway))
}

// Move moves the vault's keys while the gateway does not run.
func Move(ctx context.Context, cfg *config.Config, gateway string, store journal.Store, to kek.Target) (kek.Status, error) {
	// palyrad would refuse files that another user created here.
	if err := keyfile.CheckDir(cfg.StateDir); err != nil {
		return kek.Status{}, err
	}
	o := settings(cfg, gateway)
	o.Journal = record{store}
	return kek.Move(ctx, o, to)
}

func settings(cfg *config.Config, gateway string) kek.Options {
	return kek.Options{Dir: cfg.StateDir, Gateway: gateway, Backend: cfg.Vault.Backend, Passphrase: cfg.Vault.Passphrase, Env: os.Getenv}
}

// record journals the vault's keys.
type record struct{ store journal.Store }

// Known reports whether the journal has a record of a key.
func (r record) Known(ctx context.Context) (bool, error) {
	page, err := r.store.Events(ctx, journal.Filter{Subject: Subject, Code: string(event.VaultKeyPinned), Limit: 1})
	return len(page) > 0, err
}

// Pinned records the current key and its backend.
func (r record) Pinned(ctx context.Context, backend, id string) error {
	draft, err := event.DraftOf(event.VaultKeyPinned, journal.Daemon, Subject, pinned{backend, id})
	if err != nil {
		return err
	}
	_, err = r.store.Append(ctx, draft)
	return err
}
