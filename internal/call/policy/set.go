package policy

import "palyra/internal/call/policy/finding"

// Set is one immutable set of policies with its schema and its entities. It is safe for
// concurrent use.
//
// A set MUST NOT allow a call that a policy with an error might have forbidden. Its decisions
// MUST depend only on the request, the grants and its own content, so that its snapshot digest
// explains every verdict.
type Set struct {
	// config has the inputs of the set.
	config    Config
	rules     *rules
	access    *AccessRules
	voting    *voting
	evaluator *evaluator
	catalog   *Catalog
	findings  []finding.Finding
	// past is the union of the policies' reads of the past.
	past PastReads

	version        string
	snapshotDigest string
	snapshotJSON   []byte
}

// Access returns the access rules.
func (s *Set) Access() *AccessRules { return s.access }

// Catalog returns the tools that callers could call.
func (s *Set) Catalog() *Catalog { return s.catalog }

// SnapshotDigest returns the digest of SnapshotJSON.
func (s *Set) SnapshotDigest() string { return s.snapshotDigest }
