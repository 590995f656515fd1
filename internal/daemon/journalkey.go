package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"palyra/internal/config"
	"palyra/internal/identity/ca"
	"palyra/internal/journal"
	"palyra/internal/reason"
	"palyra/internal/sqlite"
)

func rotateCommand(s *settings) *cobra.Command {
	group := &cobra.Command{Use: "rotate", Short: "Replace a key of the gateway"}
	group.AddCommand(&cobra.Command{
		Use:   "journal-key",
		Short: "Replace the key that signs the journal's checkpoints and exports",
		Long:  "Replace the key that signs the journal's checkpoints and exports, while palyrad does not run. The old key signs a last checkpoint, and both keys sign the event that says so. What the old key signed verifies as before; nothing larger does.",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			r, err := RotateJournalKey(cmd.Context(), cfg)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "the journal is signed by %s from size %d on; the key before it signed up to %d\nfetch the key set anew (`palyra attest keys -o json`) wherever it is kept\n", r.New, r.Last+1, r.Last)
			}
			return err
		},
	})
	return group
}

// RotateJournalKey replaces the checkpoint key in a state directory that no
// daemon holds.
func RotateJournalKey(ctx context.Context, cfg *config.Config) (r journal.Rotation, err error) {
	lock, err := lockState(cfg.StateDir)
	if errors.Is(err, errInUse) {
		return r, reason.Errorf(reason.ConfigInvalid, "%w", err).WithRemedy("Stop palyrad, rotate the key, and start it again.")
	}
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	authority, _, err := ca.Open(filepath.Join(cfg.StateDir, "ca"), ca.Options{TrustDomain: cfg.TrustDomain, ServerHosts: cfg.Listen.ServerNames})
	if err != nil {
		return r, err
	}
	origin, known, err := checkpointKeys(authority)
	if err != nil {
		return r, err
	}
	db, err := sqlite.Open(ctx, storePath(cfg.StateDir), sqlite.Options{Origin: origin, Verifiers: known})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	log, err := openJournal(ctx, db, authority, journal.Options{})
	if err != nil {
		return r, err
	}
	return rotateJournalKey(ctx, log, authority)
}

// rotateJournalKey replaces the checkpoint key of a journal that is open. The
// event is the point of no return: what comes after it is done again at the
// next start, by openJournal, if it is not done now.
func rotateJournalKey(ctx context.Context, log *journal.Log, authority *ca.Authority) (journal.Rotation, error) {
	text, certified, err := authority.NextJournalKey()
	if err != nil {
		return journal.Rotation{}, err
	}
	next, err := journal.ParseKey(text)
	if err != nil {
		return journal.Rotation{}, err
	}
	r, err := log.Rotate(ctx, next, certified.ChainPEM(), certified.CertifiedAt)
	if err != nil {
		return r, err
	}
	return r, authority.AdoptJournalKey(r.Last)
}

// openJournal ends a rotation of the key that a crash cut off, one way or the
// other, and opens the journal with the keys that there are then.
func openJournal(ctx context.Context, db *sqlite.DB, authority *ca.Authority, o journal.Options) (*journal.Log, error) {
	if err := endRotation(ctx, db, authority); err != nil {
		return nil, fmt.Errorf("ending the rotation of the checkpoint key: %w", err)
	}
	var err error
	if o.Key, err = journal.ParseKey(authority.JournalSigner()); err != nil {
		return nil, err
	}
	o.Keys = signingKeys(authority)
	return journal.New(db, o)
}

func endRotation(ctx context.Context, db *sqlite.DB, authority *ca.Authority) error {
	pending := authority.PendingJournalKey()
	if pending == "" {
		return nil
	}
	origin, _, err := checkpointKeys(authority)
	if err != nil {
		return err
	}
	last, found, err := journal.LastRotation(ctx, db, origin)
	switch {
	case err != nil:
		return err
	case found && last.New == pending:
		return authority.AdoptJournalKey(last.Last)
	}
	return authority.DropJournalKey()
}

// signingKeys are the checkpoint keys with the sizes that they sign for.
func signingKeys(authority *ca.Authority) []journal.SigningKey {
	certified := authority.JournalKeys()
	keys := make([]journal.SigningKey, len(certified))
	for i, k := range certified {
		keys[i] = journal.SigningKey{Verifier: k.Verifier, First: k.First, Last: k.Last}
	}
	return keys
}
