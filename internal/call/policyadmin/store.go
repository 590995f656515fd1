package policyadmin

import (
	"context"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/event"
)

// Store keeps policy sets, pins, and what calls of the past were judged by.
// Events are appended together with what they are about, or not at all.
type Store interface {
	// PutPolicySet keeps a set and its snapshot.
	PutPolicySet(ctx context.Context, s KeptSet, loaded event.Draft) error
	// PolicyVersion finds a version by its digest or the beginning of it.
	PolicyVersion(ctx context.Context, beginning string) (KeptVersion, error)
	// PolicyVersions lists at most limit versions, newest first, from before a
	// position; 0 is the first page.
	PolicyVersions(ctx context.Context, before int64, limit int) ([]KeptVersion, error)
	// ActivatedPolicy is the version that an operator put in force, if any.
	ActivatedPolicy(ctx context.Context) (v KeptVersion, found bool, err error)
	// LastPolicy is the version that was put in force last, if any was.
	LastPolicy(ctx context.Context) (v KeptVersion, found bool, err error)
	// ResetPolicy forgets both.
	ResetPolicy(ctx context.Context, reset event.Draft) error
	// SnapshotInputs is what the set with a snapshot digest was built from, nil
	// when that was not kept.
	SnapshotInputs(ctx context.Context, digest string) ([]byte, error)

	// Ceilings lists what commands set, by name.
	Ceilings(ctx context.Context) ([]Ceiling, error)
	// PutCeiling keeps a ceiling in place of that of the same name, and returns it
	// with the time.
	PutCeiling(ctx context.Context, c Ceiling, set event.Draft) (Ceiling, error)

	// Pins lists the stored tool definitions by name.
	Pins(ctx context.Context) ([]Pin, error)
	PutPins(ctx context.Context, pins []Pin, events ...event.Draft) error

	// ProposalOf finds the proposal of a decision. No event before that time is
	// looked at.
	ProposalOf(ctx context.Context, decisionID string, before time.Time) (proposal string, found bool, err error)
	// Blob returns what is stored under a digest.
	Blob(ctx context.Context, digest string) ([]byte, error)
}

// Grants finds grants, also those that have ended.
type Grants interface {
	Grant(ctx context.Context, id string) (approval.Grant, error)
}

// KeptSet is what is kept of a set that came into force.
type KeptSet struct {
	Version string
	// Sources is the JSON of the policy files.
	Sources        []byte
	SnapshotDigest string
	// Snapshot is canonical JSON; SnapshotDigest is its SHA-256.
	Snapshot []byte
	// Inputs is what the set was built from, JSON.
	Inputs   []byte
	Policies int
	LoadedBy string
	// Activated says that an operator chose this version: it stays in force in
	// place of the policy directory, also over a restart.
	Activated bool
}

// KeptVersion is a version that was in force.
type KeptVersion struct {
	// Position orders versions by when they were loaded first.
	Position int64
	Version  string
	// Sources is the JSON of the policy files.
	Sources  []byte
	At       time.Time
	LoadedBy string
	// Policies counts those of the defaults, too; 0 when nobody knows.
	Policies int
}

// Pin is a stored tool definition.
type Pin struct {
	Tool string
	// Digest is the SHA-256 of Definition, "sha256:<hex>".
	Digest string
	// Definition is the descriptor in canonical JSON.
	Definition []byte
	// Refused is the digest of the definition that was not accepted in this
	// one's place and for which the tool is suspended, "" for none.
	Refused string
	// At is when the pin was stored last.
	At time.Time
}
