// Package policy makes decisions with Cedar. It evaluates a proposal and its facts to a verdict
// (allow, ask, deny), and it decides the API's access rules. Both use one language, one schema
// and one set of policies.
//
// An approval does not override policy. It is a fact, context.approval, which policies read.
// Evaluate therefore runs Cedar up to three times: without an approval, with each matching
// grant, and with the strongest approval that existing users could give. An approval is
// requested only if that last run allows the call.
//
// Everything fails closed: a request that does not fit the schema, an argument without a Cedar
// form, and any error in Cedar's diagnostics deny. Cedar itself skips a policy with an error,
// so that a forbid with an error would otherwise permit.
//
// docs/policy.md describes the vocabulary for authors of policies.
//
// The packages explain, lint and policytests read a View of a set: policies, entities and a
// call as Cedar receives it. A View can try a call under another set, but it returns no Verdict
// and no Set for an engine. policy/internal/check finds mistakes in policies when a set loads. An
// auditor of decisions reads only the files that docs/design/decision-path.md lists. Only two
// files of policy/internal import cedar-go's unstable packages.
package policy

import (
	"sync/atomic"

	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
	"palyra/internal/core/tool"
)

// Source is one file of policies. Name is used in positions.
type Source struct {
	Name string
	Text string
}

// Config has all inputs of a set of policies.
type Config struct {
	// Sources are the operator's files, in order; the embedded default
	// policies always come first.
	Sources []Source
	// Tools are the stored pins of tool definitions, never live servers.
	Tools []tool.Descriptor
	// Members are the users and agents.
	Members []access.Member
	// Controllers records which members one person could act as.
	Controllers provenance.Controllers
	// Roles are the declared roles; the built-in ones need not be listed.
	Roles []access.Role
	// Workspaces are the declared workspaces by name.
	Workspaces []string
	Snapshot   Snapshot
	// Surfaces are the surfaces on which this gateway accepts votes; nil means all. A call that
	// needs a vote elsewhere is denied instead of asked.
	Surfaces []access.Surface
	// NoPresence is true if presence cannot be proven on this gateway; a call that needs it is
	// denied instead of asked.
	NoPresence bool
}

// Member returns a member; false if the name is unknown.
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

// Swap puts s in force immediately. A decision that has started is completed with its earlier
// set, and records that set's snapshot digest.
func (e *Engine) Swap(s *Set) { e.current.Store(s) }

// Access returns the access rules.
func (s *Set) Access() *AccessRules { return s.access }

// Catalog returns the tools that callers could call.
func (s *Set) Catalog() *Catalog { return s.catalog }
