package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/agent/watch"
	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	skillcatalog "palyra/internal/exec/skill/catalog"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/upstream"
	"palyra/internal/gateway/doctor"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/passkeys"
	"palyra/internal/identity/token"
	"palyra/internal/ops/backup"
	"palyra/internal/ops/journalkey"
	"palyra/internal/ops/quota"
	"palyra/internal/run"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/deliveries"
	"palyra/internal/store/sqlite/guestdata"
	"palyra/internal/store/sqlite/retention"
	sqliteskills "palyra/internal/store/sqlite/skills"
	"palyra/internal/surface/api/people"
	"palyra/internal/surface/notify"
	"palyra/internal/vault"
	"palyra/internal/vault/atrest"
)

// stores holds the interfaces of the store that the packages use. Another store needs a package
// that fills this struct, and one line in openStores.
type stores struct {
	journal      journal.Store
	identity     identity.Store
	passkeys     passkeys.Store
	acts         people.Acts
	tokens       token.Store
	installed    watch.Store
	secrets      vault.Store
	calls        call.Ledger
	approvals    approval.Store
	runs         run.Store
	notify       notify.Store
	policies     policyadmin.Store
	upstreams    upstream.Store
	skills       registry.Store
	guestData    skillcatalog.Storage
	grants       policyadmin.Grants
	snapshots    snapshots
	attestations attest.Store
	usage        quota.Store
	disk         disk
	// load returns the number of writes waiting for a commit and of running reads.
	load func() (queued, reading int)
	// reserve returns the free disk space, the current reserve for operators, and the configured
	// one, in bytes; keepReserve fills it.
	reserve     func() (free, held, size int64)
	keepReserve func(ctx context.Context) error
	// useVault sets the key wrapping for results, without which no result is stored or read.
	useVault    func(atrest.Ring)
	resultsKeys vault.Boxes
	// tendResults seals and expires results; keepsResults returns the reason why results cannot be
	// stored, or nil.
	tendResults  func(ctx context.Context) error
	keepsResults func() error
	close        func(ctx context.Context) error
}

// snapshots are the contents behind policy snapshot digests.
type snapshots interface {
	Snapshot(ctx context.Context, digest string) ([]byte, error)
}

// disk is the health interface of the store.
type disk interface {
	Healthy() error
	Probe() error
}

// watchers are called on store events. They MUST NOT block.
type watchers struct {
	// now is the clock; nil means time.Now.
	now       func() time.Time
	committed func(took time.Duration, events int)
	wrote     func(actor string, p access.Precedence, bytes int64)
	log       *slog.Logger
}

// openStores opens the store of a state directory.
func openStores(ctx context.Context, cfg *config.Config, authority *ca.Authority, w watchers) (stores, error) {
	origin, known, err := journalkey.Origin(authority)
	if err != nil {
		return stores{}, err
	}
	o := sqlite.Options{Now: w.now, Origin: origin, Verifiers: known}
	if w.committed != nil {
		o.Committed = func(c sqlite.CommitInfo) { w.committed(c.Took, c.Events) }
	}
	if w.wrote != nil {
		o.Wrote = func(by sqlite.Written) { w.wrote(by.Actor, by.Precedence, by.Bytes) }
	}
	if w.log != nil {
		o.Reserve = sqlite.ReserveOptions{Bytes: cfg.Storage.ReserveBytes, Changed: func(s sqlite.ReserveState) { logDisk(w.log, s) }}
	}
	db, err := sqlite.Open(ctx, statedir.Store(cfg.StateDir), o)
	if err != nil {
		return stores{}, err
	}
	approvals, results, identity := sqlite.NewApprovals(db), sqlite.NewResults(db), sqlite.NewIdentity(db)
	return stores{
		journal: db, identity: identity, passkeys: identity, acts: db, tokens: sqlite.NewTokens(db), installed: sqlite.NewInstalled(db), secrets: sqlite.NewSecrets(db), calls: sqlite.NewCalls(db), approvals: approvals, runs: sqlite.NewRuns(db), notify: deliveries.New(db),
		policies: sqlite.NewPolicies(db), upstreams: sqlite.NewUpstreams(db), skills: sqliteskills.New(db), guestData: guestdata.New(db), grants: approvals, snapshots: sqlite.NewPolicies(db), attestations: sqlite.NewAttestations(db), usage: sqlite.NewUsage(db), disk: db,
		load:        func() (int, int) { l := db.Load(); return l.Queued, l.Reading },
		reserve:     func() (int64, int64, int64) { r := db.Reserve(); return r.Free, r.Held, r.Size },
		keepReserve: db.KeepReserve, useVault: results.UseVault, resultsKeys: results, keepsResults: results.ResultsProblem, close: db.Close,
		tendResults: func(ctx context.Context) error {
			return retention.Run(ctx, retention.Config{Store: results, Retention: cfg.Results.Retention, Now: w.now, Log: w.log})
		},
	}, nil
}

// openReadOnly opens the store of a state directory for a short look, with or without a running
// daemon.
func openReadOnly(ctx context.Context, stateDir string) (doctor.Store, error) {
	db, err := sqlite.OpenUnchanged(ctx, statedir.Store(stateDir))
	if err != nil {
		return nil, err
	}
	return struct {
		*sqlite.DB
		sqlite.IdentityStore
		sqlite.Policies
	}{db, sqlite.NewIdentity(db), sqlite.NewPolicies(db)}, nil
}

// snapshotStore copies a consistent snapshot of the store of a state directory.
func snapshotStore(ctx context.Context, stateDir, into string) error {
	return sqlite.Snapshot(ctx, statedir.Store(stateDir), into)
}

// signStoredHead signs the head of the journal in a store that no process writes.
func signStoredHead(ctx context.Context, store string, key *journal.Key) (cp journal.Checkpoint, err error) {
	db, err := sqlite.OpenReadOnly(ctx, store)
	if err != nil {
		return cp, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	return journal.SignHead(ctx, db, key)
}

// verifyStore verifies a whole store. The store must contain the checkpoints in holds.
func verifyStore(ctx context.Context, store, gateway string, known note.Verifiers, holds ...journal.Checkpoint) error {
	_, err := sqlite.Verify(ctx, store, gateway, known, holds...)
	return err
}

// validIn lists the credentials that are valid in a store.
func validIn(ctx context.Context, store string) (list []backup.Credential, err error) {
	db, err := sqlite.OpenReadOnly(ctx, store)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	members, err := sqlite.NewIdentity(db).Members(ctx)
	if err != nil {
		return nil, err
	}
	devices, err := sqlite.NewIdentity(db).Devices(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := sqlite.NewTokens(db).Tokens(ctx)
	return backup.Valid(members, devices, tokens), err
}

// reserveOf returns the current and the configured disk reserve for operators, in bytes.
func reserveOf(cfg *config.Config) (held, size int64, err error) {
	return sqlite.ReserveOf(statedir.Store(cfg.StateDir), cfg.Storage.ReserveBytes)
}

// logDisk logs the state of the disk. It is called when that changes, during a commit.
func logDisk(log *slog.Logger, s sqlite.ReserveState) {
	attrs := []any{slog.Int64("free", s.Free), slog.Int64("reserve", s.Held), slog.Int64("reserve_size", s.Size)}
	switch {
	case s.Low():
		log.Warn("the disk that holds state_dir is nearly full: nothing begins but what operators do; make room", attrs...)
	case s.Held < s.Size:
		log.Warn("the reserve for operators on the disk that holds state_dir is not whole; it is filled when there is room", attrs...)
	default:
		log.Info("the disk that holds state_dir has room, and the reserve for operators is whole", attrs...)
	}
}

// reserveNotice returns the remaining reserve if it is partly used, or "".
func reserveNotice(held, size int64) string {
	if held == size {
		return ""
	}
	return fmt.Sprintf("%d of %d MiB are left of the disk's reserve for operators, which is filled when the disk has room: free some on the disk that holds state_dir", held>>20, size>>20)
}

// storedSchema returns the schema version of the store of a state directory, and the newest one.
func storedSchema(stateDir string) (have, newest int, err error) {
	return sqlite.CheckSchema(statedir.Store(stateDir))
}

// takeState locks a state directory. It refuses a store of a schema that this palyrad does not
// upgrade before anything in the directory is written.
func takeState(dir string) (*statedir.Lock, error) {
	if _, _, err := storedSchema(dir); err != nil {
		return nil, err
	}
	return statedir.Take(dir)
}

// takeStopped locks the state directory of a stopped daemon.
func takeStopped(stateDir, remedy string) (*statedir.Lock, error) {
	lock, err := takeState(stateDir)
	if errors.Is(err, statedir.ErrInUse) {
		return nil, reason.Errorf(reason.ConfigInvalid, "%w", err).WithRemedy("%s", remedy)
	}
	return lock, err
}

// withStores runs do with the store of a state directory that the caller has locked.
func withStores(ctx context.Context, cfg *config.Config, do func(stores, *ca.Authority) error) (err error) {
	authority, _, err := openAuthority(cfg)
	if err != nil {
		return err
	}
	s, err := openStores(ctx, cfg, authority, watchers{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	return do(s, authority)
}
