package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/attest"
	"palyra/internal/identity/keyfile"
	"palyra/internal/journal"
	"palyra/internal/reason"
	"palyra/internal/sqlite"
)

// Where palyrad keeps its journal and the keys of its checkpoints.
const (
	storeFile       = "palyra.db"
	journalKeyFile  = "ca/journal.key"
	journalPastFile = "ca/journal-past"
)

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// verifyState verifies the journal in a state directory; nothing is changed.
func (a *app) verifyState(ctx context.Context, dir string, f verifyFlags) error {
	if f.keys != "" {
		return usage("--keys is for exports").WithRemedy("Export the journal, then verify its attestations with `palyra journal verify FILE --keys %s`.", f.keys)
	}
	keys, trusted, err := a.stateKeys(dir, f.key)
	if err != nil {
		return err
	}
	known, err := journal.ParseKeys(keys...)
	if err != nil {
		return err
	}
	first, err := note.NewVerifier(keys[0])
	if err != nil {
		return usage("verifier key %q: %w", keys[0], err)
	}
	seen, err := a.seenOf(dir)
	if err != nil {
		return err
	}
	sum, err := sqlite.Verify(ctx, filepath.Join(dir, storeFile), first.Name(), known, seen...)
	var damaged *journal.CorruptError
	if errors.As(err, &damaged) {
		return reason.Errorf(reason.VerificationFailed, "the journal in %s does not verify: %w", dir, err).
			WithField("seq", fmt.Sprint(damaged.Seq))
	}
	if err != nil {
		return err
	}
	return a.printState(dir, keys[0], trusted, sum)
}

func (a *app) printState(dir, key, trusted string, sum journal.Summary) error {
	body := object{
		{"source", dir}, {"verified", true}, {"gateway", sum.Gateway}, {"first", sum.First}, {"last", sum.Last},
		{"events", sum.Events}, {"checkpoints", sum.Checkpoints}, {"erased", sum.Erased}, {"signed_size", sum.Signed.Size},
		{"verifier_key", key}, {"verifier_key_pinned_by", trusted},
	}
	return a.printOne("JournalVerification", record{name: sum.Gateway, body: body}, func(p *page) {
		p.field("verified", "the journal and the blobs in "+dir)
		p.field("gateway", sum.Gateway)
		p.field("events", fmt.Sprintf("%d (%d to %d), %s", sum.Events, sum.First, sum.Last, plural(int(sum.Checkpoints), "checkpoint")))
		p.field("signed up to", fmt.Sprint(sum.Signed.Size))
		p.field("trusted key", key)
		p.field("known from", firstOf(trusted, "the state directory itself: it proves that the journal is whole, not that nobody with access made it anew"))
		p.field("attestations", "are verified in an export: palyra journal export, then palyra journal verify FILE")
	})
}

// stateKeys are the verifier keys to hold checkpoints against, and by what
// they are pinned: --key, or "" for those in the directory itself.
func (a *app) stateKeys(dir, key string) (keys []string, trusted string, err error) {
	if key != "" {
		return []string{key}, "--key", nil
	}
	text, err := keyfile.Read(filepath.Join(dir, filepath.FromSlash(journalKeyFile)))
	if err != nil {
		return nil, "", usage("reading the journal's key: %w", err).
			WithRemedy("Name palyrad's state directory (`palyra config show`), as the user that palyrad runs as, or give the verifier key with --key.")
	}
	words := strings.Fields(string(text))
	if len(words) != 2 {
		return nil, "", usage("%s does not hold a key", filepath.Join(dir, journalKeyFile))
	}
	past, err := keyfile.Read(filepath.Join(dir, filepath.FromSlash(journalPastFile)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	return append([]string{words[1]}, strings.Fields(string(past))...), "", nil
}

// seenOf is the checkpoint that is remembered of the gateway in dir, which is
// known by the CA in its local operator's bundle.
func (a *app) seenOf(dir string) ([]journal.Checkpoint, error) {
	root, err := os.ReadFile(filepath.Join(dir, "operator", "ca.pem"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // no bundle, no memory
	case err != nil:
		return nil, fmt.Errorf("reading the gateway's CA: %w", err)
	}
	print := attest.KeySet{CARoot: string(root)}.Fingerprint()
	if print == "" {
		return nil, nil
	}
	m, err := a.recall(print)
	if err != nil {
		return nil, err
	}
	return m.within()
}
