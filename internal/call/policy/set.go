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
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
)

// Set is one immutable set of policies with its schema and its entities. It
// is safe for use by many goroutines.
type Set struct {
	// config is what the set was built from.
	config   Config
	policies []*compiled
	byID     map[cedar.PolicyID]*compiled
	vocab    *vocabulary
	dir      *directory
	// deciders are the users who answer approvals; see findSole.
	deciders []access.Member
	index    *index
	tally    *tally
	// independence tells which members one person could be behind.
	independence *provenance.Independence
	// offers is where people can vote here and what they can prove.
	offers reach
	// noApproval are the facts of a call that nobody approved.
	noApproval types.Record
	// electorates remembers by electorateKey; see Set.electorate.
	electorates sync.Map
	// catalogs remembers the tools of each member; see Set.Catalog.
	catalogs sync.Map
	// ideal is the approval that nobody could outdo, for asking whether more
	// people would help; made when first needed.
	ideal func() types.Record
	memo  memo
	// entrances remembers the contexts of the API's own actions.
	entrances memo
	settings  Snapshot
	findings  []finding.Finding
	// past is what the policies read of the past.
	past PastReads

	version        string
	snapshotDigest string
	snapshotJSON   []byte
}

// Version returns the digest of the policies: "sha256:<hex>" over their ids
// and texts in order, the embedded defaults included.
func (s *Set) Version() string { return s.version }

// MadeOf reports whether a set of cfg would be this one.
func (s *Set) MadeOf(cfg Config) bool { return reflect.DeepEqual(s.config, cfg) }

// SchemaDigest returns the digest of the Cedar schema.
func (s *Set) SchemaDigest() string { return s.vocab.digest }

// Schema returns the Cedar schema that policies are validated against.
func (s *Set) Schema() string { return string(s.vocab.text) }

// SnapshotDigest returns the digest of SnapshotJSON.
func (s *Set) SnapshotDigest() string { return s.snapshotDigest }

// SnapshotJSON returns what the snapshot digest is taken of, as canonical
// JSON: settings, policies, schema and entities. Store it once by its digest.
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

// compiled is one policy with what evaluation wants to know of it.
type compiled struct {
	*expr.Policy
	// order is the policy's place in the set.
	order int
	// approval is true when a condition mentions context.approval.
	approval bool
	// votes is true when a condition mentions context.approval.votes.
	votes bool
	// reads is what the conditions read of a call's context.
	reads attributes
	// wants is the text of the conjuncts that mention context.approval.
	wants       string
	determining Determining
}

func compile(p *expr.Policy) *compiled {
	c := &compiled{Policy: p, reads: contextReads(p)}
	c.approval = p.Mentions("context", "approval")
	c.votes = c.approval && p.Mentions("context", "approval", "votes")
	if c.approval {
		c.wants = p.ConditionText(expr.ReadsApproval)
	}
	c.determining = Determining{
		ID: p.ID, File: p.Source.Name, Line: p.Line, Effect: expr.EffectWord(p.Permits()), Condition: p.ConditionText(nil),
		Reason: p.Notes.Reason, Remedy: p.Notes.Remedy, Severity: p.Notes.Severity, AskReason: p.Notes.AskReason,
	}
	return c
}

// outcome is one run of Cedar.
type outcome struct {
	allowed bool
	// determining are sorted by id; cedar-go returns them in random order.
	determining []*compiled
	errors      []string
}

// run evaluates one request, which fits the schema, over its candidates. Any
// error denies: Cedar skips a policy that errors, so a forbid that errors would
// fail open.
func (s *Set) run(found candidates, entities types.EntityGetter, req cedar.Request) outcome {
	decision, diag := cedar.Authorize(found, entities, req)
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

// describeCauses describes the policies of an ask: of each, what wants the
// approval.
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
	// input is the type of the arguments; args are context.args, nil while no values
	// are made of them, rest is context.args_rest.
	input *args.Type
	args  *types.Record
	rest  types.String
	// misfit says in what way the request does not fit the schema, which
	// denies; "" when it does.
	misfit   string
	entities *overlay
	// has are the attributes that the context may have.
	has   attributes
	found candidates
	// reads is what the candidates read of the context, and context just that.
	reads   attributes
	context types.RecordMap
	// settled is the outcome of candidates that do not read the approval.
	settled   *outcome
	requester access.Principal
	// is tells who is independent, of whoever asks for the call beside the requester too.
	// shared is true if somebody does.
	is     *provenance.Independence
	shared bool
}

// facts are those of some votes on the call.
func (c *call) facts(ballots []ballot, standing bool) types.Record {
	return c.set.tally.facts(c.is, c.requester, ballots, standing)
}

// voters are those who may decide the call at a severity, for a gateway of a reach.
func (c *call) voters(within reach, severity string) *electorate {
	e := c.set.electorateWithin(within, c.requester, severity)
	if !c.shared {
		return e
	}
	return &electorate{severity: e.severity, ballots: e.ballots, facts: c.facts(e.ballots, false)}
}

// env is what the call's conditions are evaluated in.
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
