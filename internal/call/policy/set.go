package policy

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/args"
	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/vocabulary"
	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
)

// Set is one immutable set of policies with its schema and its entities. It is safe for
// concurrent use.
//
// A set MUST NOT allow a call that a policy with an error might have forbidden. Its decisions
// MUST depend only on the request, the grants and its own content, so that its snapshot digest
// explains every verdict.
type Set struct {
	// config has the inputs of the set.
	config   Config
	policies []*compiled
	byID     map[cedar.PolicyID]*compiled
	vocab    *vocabulary.Vocabulary
	dir      *entities.Directory
	// deciders are the users who answer approvals; see findSole.
	deciders []access.Member
	index    *index
	tally    *tally
	// independence records which members one person could act as.
	independence *provenance.Independence
	// offers is the reach of this gateway.
	offers reach
	// noApproval are the approval facts of a call without an approval.
	noApproval types.Record
	// electorates is a cache by electorateKey; see Set.electorate.
	electorates sync.Map
	// catalogs caches the tools of each member; see Set.Catalog.
	catalogs sync.Map
	// ideal returns the strongest possible approval, to test whether more users would help;
	// computed on first use.
	ideal func() types.Record
	memo  memo
	// entrances caches the contexts of the API's own actions.
	entrances memo
	settings  Snapshot
	findings  []finding.Finding
	// past is the union of the policies' reads of the past.
	past PastReads

	version        string
	snapshotDigest string
	snapshotJSON   []byte
}

// Version returns the digest of the policies: "sha256:<hex>" over their ids and texts in order,
// including the embedded defaults.
func (s *Set) Version() string { return s.version }

// MadeOf reports whether a set built from cfg would equal this one.
func (s *Set) MadeOf(cfg Config) bool { return reflect.DeepEqual(s.config, cfg) }

// SchemaDigest returns the digest of the Cedar schema.
func (s *Set) SchemaDigest() string { return s.vocab.Digest }

// Schema returns the Cedar schema that policies are validated against.
func (s *Set) Schema() string { return string(s.vocab.Text) }

// SnapshotDigest returns the digest of SnapshotJSON.
func (s *Set) SnapshotDigest() string { return s.snapshotDigest }

// SnapshotJSON returns the content of the snapshot digest as canonical JSON: settings,
// policies, schema and entities. Store it once by its digest.
func (s *Set) SnapshotJSON() []byte { return slices.Clone(s.snapshotJSON) }

// Findings returns the warnings of the load.
func (s *Set) Findings() []finding.Finding { return slices.Clone(s.findings) }

// Policies lists the policies in order, the embedded defaults first.
func (s *Set) Policies() []Determining {
	out := make([]Determining, len(s.policies))
	for i, p := range s.policies {
		out[i] = p.determining
	}
	return out
}

// compiled is one policy with precomputed data for evaluation.
type compiled struct {
	*expr.Policy
	// order is the policy's index in the set.
	order int
	// approval is true if a condition contains context.approval.
	approval bool
	// votes is true if a condition contains context.approval.votes.
	votes bool
	// reads are the context attributes that the conditions read.
	reads attributes
	// unread are the facts that the policy must read to cover a call that has them, but does not.
	unread []*Fact
	// wants is the text of the conjuncts that contain context.approval.
	wants       string
	determining Determining
}

// outcome is the result of one run of Cedar.
type outcome struct {
	allowed bool
	// determining are sorted by id; cedar-go returns them in random order.
	determining []*compiled
	errors      []string
}

// run evaluates one request, which fits the schema, over its candidates. Any error denies:
// Cedar skips a policy with an error, so a forbid with an error would fail open.
func (s *Set) run(found candidates, known types.EntityGetter, req cedar.Request) outcome {
	decision, diag := cedar.Authorize(found, known, req)
	return s.judge(decision, diag)
}

func (s *Set) judge(decision cedar.Decision, diag cedar.Diagnostic) outcome {
	var out outcome
	for _, e := range diag.Errors {
		out.errors = append(out.errors, string(e.PolicyID)+": "+expr.ClipText(e.Message))
	}
	slices.Sort(out.errors)
	for _, r := range diag.Reasons {
		if p := s.byID[r.PolicyID]; p != nil {
			out.determining = append(out.determining, p)
		}
	}
	sortByID(out.determining)
	out.allowed = decision == cedar.Allow && len(out.errors) == 0
	return out
}

func sortByID(list []*compiled) {
	slices.SortFunc(list, func(a, b *compiled) int { return strings.Compare(a.ID, b.ID) })
}

func describe(list []*compiled) []Determining {
	out := make([]Determining, 0, len(list))
	for _, p := range list {
		out = append(out, p.determining)
	}
	return out
}

// describeCauses describes the policies of an ask, each with its conjuncts about the approval.
func describeCauses(list []*compiled) []Determining {
	out := describe(list)
	for i, p := range list {
		if p.wants != "" {
			out[i].Condition = p.wants
		}
	}
	return out
}

// call is one proposal, ready to be evaluated under several approvals.
type call struct {
	set     *Set
	request *Request
	req     cedar.Request
	// input is the type of the arguments; args are context.args, nil while they are not built;
	// rest is context.args_rest.
	input *args.Type
	args  *types.Record
	rest  types.String
	// misfit describes how the request violates the schema, which denies; "" if it fits.
	misfit   string
	entities *entities.Overlay
	// has are the attributes that the context may have.
	has   attributes
	found candidates
	// reads are the context attributes that the candidates read; context has exactly those.
	reads   attributes
	context types.RecordMap
	// settled is the outcome of candidates that do not read the approval.
	settled   *outcome
	requester access.Principal
	// is determines independence, including independence of additional requesters. shared is
	// true if there are additional requesters.
	is     *provenance.Independence
	shared bool
}

// facts returns the approval facts of some votes on the call.
func (c *call) facts(ballots []ballot, standing bool) types.Record {
	return c.set.tally.facts(c.is, c.requester, ballots, standing)
}

// voters returns the users who may decide the call at a severity, for a gateway of a reach.
func (c *call) voters(within reach, severity string) *electorate {
	e := c.set.electorateWithin(within, c.requester, severity)
	if !c.shared {
		return e
	}
	return &electorate{severity: e.severity, ballots: e.ballots, facts: c.facts(e.ballots, false)}
}

// env returns the environment of the call's conditions.
func (c *call) env(context types.Record) expr.Env {
	return expr.Env{
		Entities: c.entities, Principal: c.req.Principal, Action: c.req.Action, Resource: c.req.Resource,
		Context: context,
	}
}

// under evaluates the call with one approval's facts.
func (c *call) under(facts types.Record) outcome {
	if c.misfit != "" {
		return outcome{errors: []string{c.misfit}}
	}
	if c.settled != nil {
		return *c.settled
	}
	approved := c.reads.has(attrApproval)
	if approved {
		c.context["approval"] = facts
	}
	req := c.req
	req.Context = types.NewRecord(c.context)
	out := c.set.run(c.found, c.entities, req)
	if !approved {
		c.settled = &out
	}
	return out
}
