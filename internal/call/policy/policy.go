// Package policy decides with Cedar. It turns a proposal and its facts into a
// verdict (allow, ask, deny) and it decides the API's access rules, both with
// one language, one schema and one set of policies.
//
// A human's yes is not an override but a fact, context.approval, which
// policies read. Evaluate therefore asks Cedar up to three times: with no
// approval, with each grant that matches, and with the strongest approval
// that the people who exist now could give. Only if that last one is allowed
// is it worth asking anybody.
//
// Everything fails closed: a request that does not fit the schema, an
// argument that has no Cedar form, and any error in Cedar's diagnostics deny.
// Cedar itself skips a policy that errors, so that a forbid that errors would
// otherwise permit.
//
// docs/policy.md describes the vocabulary for the people who write policies.
package policy

import (
	"sync/atomic"

	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
	"palyra/internal/core/tool"
)

// Source is one file of policies. Name is shown in positions.
type Source struct {
	Name string
	Text string
}

// Config is everything that a set of policies is built from.
type Config struct {
	// Sources are the operator's files, in order; the embedded default
	// policies always come first.
	Sources []Source
	// Tools are the stored pins of tool definitions, never live servers.
	Tools []tool.Descriptor
	// Members are the users and agents.
	Members []access.Member
	// Hands says which of them one person could be behind.
	Hands provenance.Hands
	// Roles are the declared roles; the built-in ones need not be listed.
	Roles []access.Role
	// Workspaces are the declared workspaces by name.
	Workspaces []string
	Snapshot   Snapshot
	// Surfaces are where this gateway can take votes; nil means everywhere. A
	// call that needs a vote elsewhere is denied rather than asked about.
	Surfaces []access.Surface
	// NoPresence says that nobody can prove to be present here; a call that
	// needs it is denied rather than asked about.
	NoPresence bool
}

// Member returns a member; false when there is none of that name.
func (c Config) Member(p access.Principal) (access.Member, bool) {
	for _, m := range c.Members {
		if m.Principal == p {
			return m, true
		}
	}
	return access.Member{}, false
}

// Engine holds the policies in force. The zero value denies everything.
type Engine struct {
	current atomic.Pointer[Set]
}

// NewEngine returns an engine that decides with s.
func NewEngine(s *Set) *Engine {
	e := &Engine{}
	e.current.Store(s)
	return e
}

// Current returns the set in force.
func (e *Engine) Current() *Set { return e.current.Load() }

// Swap puts s in force at once. Decisions that already began end with the set
// that they began with, and say so by its snapshot digest.
func (e *Engine) Swap(s *Set) { e.current.Store(s) }
