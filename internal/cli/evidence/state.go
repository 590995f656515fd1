package evidence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/witness"
	"palyra/internal/core/progress"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/ca"
)

// The paths of palyrad's journal and of the keys of its checkpoints.
const (
	storeFile = "palyra.db"
	caDir     = "ca"
)

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// verifyState verifies the journal in a state directory, without changing it.
func (a *verifyCommands) verifyState(ctx context.Context, dir string, f verifyFlags) error {
	if f.keys != "" {
		return command.Usage("--keys applies only to exports").WithRemedy("Export the journal, then verify its attestations with `palyra journal verify FILE --keys %s`.", f.keys)
	}
	keys, trusted, err := a.stateKeys(dir, f.key)
	if err != nil {
		return err
	}
	known, err := journal.NewSigners(keys...)
	if err != nil {
		return err
	}
	first, err := note.NewVerifier(keys[0].Verifier)
	if err != nil {
		return command.Usage("verifier key %q: %w", keys[0].Verifier, err)
	}
	m, err := a.memoryOf(dir)
	if err != nil {
		return err
	}
	seen, err := m.Within()
	if err != nil {
		return err
	}
	var counted progress.Meter
	end := a.Progress(&counted, "verifying", "events")
	sum, err := a.VerifyStore(progress.With(ctx, &counted), filepath.Join(dir, storeFile), first.Name(), known, seen...)
	end()
	var damaged *journal.CorruptError
	if errors.As(err, &damaged) {
		return reason.Errorf(reason.VerificationFailed, "verifying the journal in %s: %w", dir, err).
			WithField("seq", fmt.Sprint(damaged.Seq))
	}
	if err != nil {
		return err
	}
	if len(m.Signing()) > 0 && trusted == "" {
		if trusted = byMemory; !m.Continues(sum.Keys) {
			path, _ := witness.Path(a.App, m.CARoot)
			return witness.KeyChanged(m, path, keys[0].Verifier)
		}
	}
	return a.printState(dir, keys[0].Verifier, trusted, sum)
}

func (a *verifyCommands) printState(dir, key, trusted string, sum journal.Summary) error {
	body := printer.Object{
		{"source", dir}, {"verified", true}, {"gateway", sum.Gateway}, {"first", sum.First}, {"last", sum.Last},
		{"events", sum.Events}, {"checkpoints", sum.Checkpoints}, {"erased", sum.Erased}, {"signed_size", sum.Signed.Size},
		{"verifier_key", key}, {"verifier_key_pinned_by", trusted},
	}
	return a.PrintOne("JournalVerification", printer.Record{Name: sum.Gateway, Body: body}, func(p *printer.Page) {
		p.Field("verified", "the journal and the blobs in "+dir)
		p.Field("gateway", sum.Gateway)
		p.Field("events", fmt.Sprintf("%d (%d to %d), %s", sum.Events, sum.First, sum.Last, text.Plural(int(sum.Checkpoints), "checkpoint")))
		p.Field("signed up to", fmt.Sprint(sum.Signed.Size))
		p.Field("trusted key", key)
		p.Field("known from", cmp.Or(trusted, "the state directory itself: this proves integrity, but not that the journal was not recreated"))
		p.Field("attestations", "verified only in exports: palyra journal export, then palyra journal verify FILE")
	})
}

// stateKeys returns the checkpoint keys for verification, the signing one first. trusted is how
// they are pinned: --key, or "" for the keys in the directory itself.
func (a *verifyCommands) stateKeys(dir, key string) (keys []journal.SigningKey, trusted string, err error) {
	if key != "" {
		return []journal.SigningKey{{Verifier: key}}, "--key", nil
	}
	stored, err := ca.ReadJournalKeys(filepath.Join(dir, caDir))
	if err != nil {
		return nil, "", command.Usage("reading the journal's keys: %w", err).
			WithRemedy("Specify palyrad's state directory (`palyra config show`), as the user that palyrad runs as, or the verifier key with --key.")
	}
	for _, k := range stored {
		keys = append(keys, journal.SigningKey{Verifier: k.Verifier, First: k.First, Last: k.Last})
	}
	return keys, "", nil
}

// memoryOf returns the stored memory of the gateway in dir, identified by the CA in its local
// operator's bundle.
func (a *verifyCommands) memoryOf(dir string) (witness.Memory, error) {
	root, err := os.ReadFile(filepath.Join(dir, "operator", "ca.pem"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return witness.Memory{}, nil // no bundle, no memory
	case err != nil:
		return witness.Memory{}, fmt.Errorf("reading the gateway's CA: %w", err)
	}
	print := attest.KeySet{CARoot: string(root)}.Fingerprint()
	if print == "" {
		return witness.Memory{}, nil
	}
	return witness.Recall(a.App, print)
}
