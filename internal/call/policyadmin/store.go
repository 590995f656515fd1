package policyadmin

import (
	"context"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/event"
)

// Store holds policy sets, ceilings, pins, and the inputs of past evaluations. Events are appended
// together with their data, or not at all.
type Store interface {
	VersionStore
	CeilingStore
	PinStore
	// ProposalOf finds the proposal of a decision. It ignores events before a time.
	ProposalOf(ctx context.Context, decisionID string, before time.Time) (proposal string, found bool, err error)
	// Blob returns the content of a digest.
	Blob(ctx context.Context, digest string) ([]byte, error)
}

// VersionStore holds the policy sets that were in force.
type VersionStore interface {
	// PutPolicySet stores a set and its snapshot.
	PutPolicySet(ctx context.Context, s KeptSet, loaded event.Draft) error
	// PolicyVersion finds a version by its digest or a prefix of it.
	PolicyVersion(ctx context.Context, beginning string) (KeptVersion, error)
	// PolicyVersions lists at most limit versions, newest first, before a position; 0 is the first
	// page.
	PolicyVersions(ctx context.Context, before int64, limit int) ([]KeptVersion, error)
	// ActivatedPolicy returns the version that an operator activated, if any.
	ActivatedPolicy(ctx context.Context) (v KeptVersion, found bool, err error)
	// LastPolicy returns the version that was put in force last, if any.
	LastPolicy(ctx context.Context) (v KeptVersion, found bool, err error)
	// ResetPolicy clears the results of ActivatedPolicy and LastPolicy.
	ResetPolicy(ctx context.Context, reset event.Draft) error
	// SnapshotInputs returns the inputs of the set with a snapshot digest, or nil if they were not
	// stored.
	SnapshotInputs(ctx context.Context, digest string) ([]byte, error)
}

// CeilingStore holds the ceilings that commands set.
type CeilingStore interface {
	// Ceilings lists the ceilings by name.
	Ceilings(ctx context.Context) ([]Ceiling, error)
	// PutCeiling stores a ceiling and replaces one with the same name. It returns the ceiling with
	// its time.
	PutCeiling(ctx context.Context, c Ceiling, set event.Draft) (Ceiling, error)
}

// PinStore holds the approved tool definitions.
type PinStore interface {
	// Pins lists the stored tool definitions by name.
	Pins(ctx context.Context) ([]Pin, error)
	PutPins(ctx context.Context, pins []Pin, events ...event.Draft) error
}

// Grants finds grants, including ended ones.
type Grants interface {
	Grant(ctx context.Context, id string) (approval.Grant, error)
}

// KeptSet is the stored form of a set that came into force.
type KeptSet struct {
	Version string
	// Sources is the JSON of the policy files.
	Sources        []byte
	SnapshotDigest string
	// Snapshot is canonical JSON; SnapshotDigest is its SHA-256.
	Snapshot []byte
	// Inputs are the inputs of the set as JSON.
	Inputs   []byte
	Policies int
	LoadedBy string
	// Activated is true if an operator chose this version: it stays in force in place of the policy
	// directory, also after a restart.
	Activated bool
}

// KeptVersion is a version that was in force.
type KeptVersion struct {
	// Position orders versions by the time when they were loaded first.
	Position int64
	Version  string
	// Sources is the JSON of the policy files.
	Sources  []byte
	At       time.Time
	LoadedBy string
	// Policies includes the default policies; 0 if the number is unknown.
	Policies int
}

// Pin is a stored tool definition.
type Pin struct {
	Tool string
	// Digest is the SHA-256 of Definition, "sha256:<hex>".
	Digest string
	// Definition is the descriptor in canonical JSON.
	Definition []byte
	// Refused is the digest of a newer definition that was not accepted and for which the tool is
	// suspended, "" for none.
	Refused string
	// At is the time when the pin was last stored.
	At time.Time
}
