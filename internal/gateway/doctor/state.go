package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/text"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity"
	"palyra/internal/ops/journalkey"
)

func (p *subject) stateDir(context.Context) finding {
	dir := p.Settings.StateDir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fine(dir + " is not there yet; palyrad makes it")
	case err != nil:
		return broken(fmt.Errorf("looking at the state directory: %w", err))
	case !info.IsDir():
		return broken(reason.Errorf(reason.ConfigInvalid, "%s is not a directory", dir).WithRemedy("Set state_dir to a directory."))
	}
	if err := statedir.CheckPrivate(dir, info); err != nil {
		return broken(err)
	}
	p.made = true
	return fine(dir)
}

func (p *subject) daemon(context.Context) finding {
	if !p.made {
		return skipped("nothing runs on a state directory that is not there")
	}
	holder, err := statedir.Holder(p.Settings.StateDir)
	switch {
	case err != nil:
		return broken(err)
	case holder == "":
		return fine("no palyrad uses the state directory")
	}
	p.running = true
	return fine(holder + " runs on the state directory")
}

// Thresholds of free space for a journal: below the first an operator should act, below the second
// calls may soon be refused.
const (
	littleSpace = 1 << 30
	tooLittle   = 64 << 20
)

func (p *subject) space(context.Context) finding {
	dir := existing(p.Settings.StateDir)
	free, err := freeSpace(dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return skipped("free space is not measured on this system")
	}
	if err != nil {
		return broken(fmt.Errorf("asking for the free space of %s: %w", dir, err))
	}
	detail := fmt.Sprintf("%d MiB are free for the state directory", free>>20)
	const remedy = "Make room, or move state_dir to a larger disk; when the disk is full nothing runs."
	switch {
	case free < tooLittle:
		return finding{Failed, detail, remedy}
	case free < littleSpace:
		return doubtful(detail, remedy)
	}
	return fine(detail)
}

// existing returns the nearest existing directory at or above path.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// slowWrite is the duration of a durable write from which calls become noticeably slower.
const slowWrite = 20 * time.Millisecond

// writes measures a durable write, which every call waits for twice. It reads the data back to
// detect a disk that falsely reports success.
func (p *subject) writes(context.Context) finding {
	if !p.made {
		return skipped("the state directory does not exist yet")
	}
	took, err := measureWrites(p.Settings.StateDir)
	if err != nil {
		return broken(reason.Errorf(reason.JournalUnavailable, "the state directory cannot be written: %w", err))
	}
	detail := fmt.Sprintf("a durable write takes %s", took.Round(10*time.Microsecond))
	if took > slowWrite {
		return doubtful(detail, "Every governed call waits for two of them: move state_dir to a faster disk.")
	}
	return fine(detail)
}

// measureWrites returns the median of several durable writes.
func measureWrites(dir string) (_ time.Duration, err error) {
	file, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	const rounds = 7
	block, back := make([]byte, 4096), make([]byte, 4096)
	var took []time.Duration
	for i := range rounds {
		block[0] = byte(i + 1)
		began := time.Now()
		if _, err := file.WriteAt(block, 0); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
		if _, err := file.ReadAt(back, 0); err != nil {
			return 0, err
		}
		if !slices.Equal(block, back) {
			return 0, errors.New("the data read back differs from the data written")
		}
	}
	slices.Sort(took)
	return took[rounds/2], nil
}

// keysAreThere reports whether the gateway was started once.
func (p *subject) keysAreThere() bool {
	_, err := os.Stat(statedir.Authority(p.Settings.StateDir))
	return p.made && err == nil
}

func (p *subject) keys(context.Context) finding {
	if !p.keysAreThere() {
		return skipped("no keys exist yet; the first start creates them")
	}
	authority, err := p.Authority()
	if err != nil {
		return broken(err)
	}
	root, notary := authority.Root(), authority.Notary.Key().Chain[0]
	detail := fmt.Sprintf("trust domain %s, root until %s, notary until %s", authority.TrustDomain(),
		root.NotAfter.Format(time.DateOnly), notary.NotAfter.Format(time.DateOnly))
	if left := time.Until(root.NotAfter); left < 180*24*time.Hour {
		return doubtful(detail, "The root certificate expires soon: plan a new state directory and pair the devices again.")
	}
	return fine(detail)
}

// operatorKey reports the location of the local operator's key. A key in a file is readable by
// every process of this uid.
func (p *subject) operatorKey(context.Context) finding {
	dir := statedir.Operator(p.Settings.StateDir)
	if _, err := os.Stat(dir); !p.made || err != nil {
		return skipped("no local operator exists yet; the first start creates one")
	}
	kept, err := identity.KeptIn(dir)
	switch {
	case err != nil:
		return broken(err)
	case kept != nil:
		return fine(fmt.Sprintf("the local operator's key is not a file: %s", kept.Place))
	}
	return fine("the local operator's key is a file in " + dir + ", which every process of this uid can read; `palyra key protect` keeps it elsewhere")
}

// vault reports whether a palyrad started here and now could use the vault's key. The
// availability of a keyring depends on the session.
func (p *subject) vault(ctx context.Context) finding {
	if !p.keysAreThere() {
		return skipped("the vault has no key yet; the first start creates it in vault.backend (" + p.Settings.Vault.Backend + ")")
	}
	s, err := p.Vault(ctx)
	switch {
	case err != nil:
		return broken(err)
	case s.Backend == "" && !s.Locked:
		return skipped("the vault has no key yet; the next start creates it in vault.backend (" + p.Settings.Vault.Backend + ")")
	case s.Reason == reason.VaultLocked:
		return doubtful(s.String(), s.Remedy)
	case s.Locked:
		return finding{Failed, s.String(), s.Remedy}
	case s.Leftover > 0:
		return doubtful(fmt.Sprintf("%s; %s that count no more could not be deleted yet", s, text.Plural(s.Leftover, "key")), "palyrad deletes them while it runs, once the backend that has them answers.")
	}
	return fine(s.String() + ", key " + s.ID)
}

// places lists the location of each key. Whether the TPM can use its keys was tested when they were
// opened.
func (p *subject) places(context.Context) finding {
	if !p.keysAreThere() {
		return skipped("the gateway has no keys yet; the first start creates them in keys.store (" + p.Settings.Keys.Store + ")")
	}
	authority, err := p.Authority()
	if err != nil {
		return skipped("the keys cannot be opened")
	}
	var lines []string
	for _, k := range p.Places(authority) {
		lines = append(lines, fmt.Sprintf("%s: %s (%s)", k.Key, k.Place, k.Detail))
	}
	return fine(strings.Join(lines, "; "))
}

func (p *subject) journal(ctx context.Context) finding {
	detail, _, err := p.readJournal(ctx)
	if err != nil {
		return broken(err)
	}
	if detail == "" {
		return skipped("no journal exists yet")
	}
	return fine(detail)
}

// readJournal verifies the end of the journal, from the last checkpoint on.
func (p *subject) readJournal(ctx context.Context) (detail string, head journal.Head, err error) {
	if _, err := os.Stat(statedir.Store(p.Settings.StateDir)); err != nil || !p.keysAreThere() {
		return "", head, nil
	}
	authority, err := p.Authority()
	if err != nil {
		return "", head, err
	}
	origin, known, err := journalkey.Origin(authority)
	if err != nil {
		return "", head, err
	}
	db, err := p.OpenStore(ctx)
	if err != nil {
		return "", head, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	if err := journal.VerifyTail(ctx, db, origin, known); err != nil {
		return "", head, err
	}
	head = db.Head()
	return fmt.Sprintf("%s; the last checkpoint and what follows it verify (`palyra journal verify` looks at all of it)", text.Plural(head.Seq, "event")), head, nil
}

// clockBehind is how far a clock may be behind the journal before the check reports it.
const clockBehind = 2 * time.Second

// clock compares the clock with the journal, whose times never decrease, and queries the kernel for
// time synchronisation.
func (p *subject) clock(ctx context.Context) finding {
	now := time.Now()
	_, head, err := p.readJournal(ctx)
	if err == nil && head.At.Sub(now) > clockBehind {
		return finding{Failed, fmt.Sprintf("the clock says %s, the journal's newest event is of %s",
			now.UTC().Format(time.RFC3339), head.At.Format(time.RFC3339)),
			"Set the clock; approvals, grants and certificates end by it."}
	}
	synchronised, err := clockSynchronised()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return fine(now.UTC().Format(time.RFC3339))
	case err != nil:
		return doubtful("the kernel does not say whether the clock is kept right: "+err.Error(), "See that a time service runs.")
	case !synchronised:
		return doubtful(now.UTC().Format(time.RFC3339)+"; the kernel says that nothing keeps the clock right",
			"Run a time service, such as chrony or systemd-timesyncd; in a container the host's counts.")
	}
	return fine(now.UTC().Format(time.RFC3339) + ", kept right by a time service")
}

// reserveLeft examines the disk reserve.
func (p *subject) reserveLeft(context.Context) finding {
	switch {
	case p.Settings.Storage.ReserveBytes == 0:
		return doubtful("storage.reserve_bytes is 0", "When the disk is full, votes, freezes and revocations fail; remove the setting to use the default reserve.")
	case !p.made:
		return skipped("no store exists yet that needs a reserve")
	}
	held, size, err := p.Reserve()
	switch {
	case err != nil:
		return broken(fmt.Errorf("looking at the reserve: %w", err))
	case size == 0:
		return skipped("the reserve is unavailable: the disk is too small, or the system does not report free space")
	case held < size:
		return doubtful(fmt.Sprintf("%d of %d MiB are reserved for operators", held>>20, size>>20),
			"palyrad fills the reserve while it runs, once the disk has room.")
	}
	return fine(fmt.Sprintf("%d MiB are reserved for operators", size>>20))
}

// port returns the exam whether the port of a setting is free; "" disables it. A running daemon
// occupies the port.
func (p *subject) port(key, address string) func(context.Context) finding {
	return func(ctx context.Context) finding {
		switch {
		case address == "":
			return skipped("switched off")
		case p.running:
			return skipped(address + "; the palyrad that runs holds it")
		}
		l, err := p.Listen(ctx, address, key)
		if err != nil {
			return broken(err)
		}
		if err := l.Close(); err != nil {
			return broken(fmt.Errorf("closing %s: %w", address, err))
		}
		return fine(address + " is free")
	}
}
