// Package vaultkey opens the vault's keys of a gateway by its settings, has its journal
// say where they are, and moves them (`palyrad vault move`).
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

// Subject is what the events of the vault's key are about.
const Subject = "vault key"

// pinned is the payload of event.VaultKeyPinned.
type pinned struct {
	Backend string `json:"backend"`
	ID      string `json:"id"`
}

// Open opens the vault's keys, with a journal that says whether there were any before.
// log is nil where nobody is told.
func Open(cfg *config.Config, gateway string, store journal.Store, log *slog.Logger) (*kek.Ring, error) {
	o := settings(cfg, gateway)
	o.Log, o.Journal = log, record{store}
	return kek.Open(o)
}

// Examine says how the vault's keys are, and changes nothing.
func Examine(ctx context.Context, cfg *config.Config, gateway string) kek.Status {
	return kek.Examine(ctx, settings(cfg, gateway))
}

// Carry returns the vault's keys for another place, and changes nothing.
func Carry(ctx context.Context, cfg *config.Config, gateway string) (*kek.Portable, error) {
	return kek.Carry(ctx, settings(cfg, gateway))
}

// Move moves the vault's keys of a gateway that does not run.
func Move(ctx context.Context, cfg *config.Config, gateway string, store journal.Store, to kek.Target) (kek.Status, error) {
	// Files that another makes here palyrad would not read.
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

// record is the journal's word about the vault's keys.
type record struct{ store journal.Store }

// Known reports whether the journal knows of a key.
func (r record) Known(ctx context.Context) (bool, error) {
	page, err := r.store.Events(ctx, journal.Filter{Subject: Subject, Code: string(event.VaultKeyPinned), Limit: 1})
	return len(page) > 0, err
}

// Pinned notes that a key is the current one, and where.
func (r record) Pinned(ctx context.Context, backend, id string) error {
	draft, err := event.DraftOf(event.VaultKeyPinned, journal.Daemon, Subject, pinned{backend, id})
	if err != nil {
		return err
	}
	_, err = r.store.Append(ctx, draft)
	return err
}
