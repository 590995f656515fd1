package policy

import (
	"fmt"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/args"
	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
)

// evaluator converts requests to calls, which the rules and the votes of a set decide. It is safe
// for concurrent use.
type evaluator struct {
	rules  *rules
	voting *voting
	// records caches the records of contexts.
	records memo
}

// call is one proposal, prepared for its evaluation under several approvals.
type call struct {
	*evaluator
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

// refusal is the reason why a request cannot be evaluated and is therefore denied.
type refusal struct {
	code    reason.Code
	message string
}

// prepare converts a request to Cedar's terms.
func (e *evaluator) prepare(r *Request) (*call, *refusal) {
	input, known := e.rules.vocab.Args[r.Tool]
	if !known || r.Tool == names.UnknownTool {
		return nil, &refusal{reason.UnknownTool, fmt.Sprintf("no pinned tool is named %q", expr.ClipText(r.Tool))}
	}
	if r.Commit != nil {
		return e.prepareCommit(r)
	}
	if r.Injection != nil {
		return e.prepareInjection(r)
	}
	return e.prepareKnown(r, input)
}

func (e *evaluator) prepareKnown(r *Request, input *args.Type) (*call, *refusal) {
	// A call that does not name its skill would bypass the skill gate.
	if skill := e.rules.dir.Skills[r.Tool]; skill != "" && skill != r.SkillID {
		return nil, &refusal{reason.PolicyError, fmt.Sprintf("the call of %s does not name its skill %s", r.Tool, skill)}
	}
	c, refused := e.newCall(r, callAttributes)
	if refused != nil {
		return nil, refused
	}
	c.req.Action = types.NewEntityUID(names.TypeAction, types.String(names.ToolPrefix+r.Tool))
	c.req.Resource = types.NewEntityUID(names.TypeTool, types.String(r.Tool))
	c.findPolicies()
	complete, err := c.readArguments(input)
	if err != nil {
		return nil, &refusal{reason.PolicyError, err.Error()}
	}
	if !complete {
		c.misfit = c.misfitOf()
	}
	c.context = c.contextOf(c.reads)
	return c, nil
}

// readArguments checks the arguments, and converts them to values if a policy reads them.
// complete is true if the arguments have all members that the tool's schema requires.
func (c *call) readArguments(input *args.Type) (complete bool, err error) {
	c.input = input
	if !c.reads.has(attrArgs) {
		c.rest, complete, err = args.Check(input, c.request.Args)
		return complete, err
	}
	values, rest, complete, err := args.Values(input, c.request.Args)
	c.args, c.rest = &values, rest
	return complete, err
}

// newCall creates a call with its caller; has are the attributes that its context may have.
func (e *evaluator) newCall(r *Request, has attributes) (*call, *refusal) {
	c := &call{evaluator: e, request: r, has: has, requester: e.rules.dir.Requester(r.Caller), is: e.voting.independence}
	var others []access.Principal
	for _, other := range r.Beside {
		others = append(others, e.rules.dir.Requester(other))
	}
	// Another principal that controls the agent, such as its creator, could be behind its calls.
	if agent := r.Caller.Principal; agent.Kind == access.KindAgent && e.voting.independence.Apart(agent, c.requester) {
		others = append(others, agent)
	}
	if c.shared = len(others) > 0; c.shared {
		c.is = e.voting.independence.Beside(others...)
	}
	principal, known, ok := e.rules.dir.Principal(r.Caller.Principal)
	if !ok {
		return nil, &refusal{reason.PolicyError, fmt.Sprintf("the caller %q is not a valid principal", r.Caller.Principal)}
	}
	c.entities, c.req.Principal = known, principal
	return c, nil
}

// findPolicies finds the candidates and the attributes that they read.
func (c *call) findPolicies() {
	c.found = c.rules.candidates(c.req).covering(c.request)
	c.reads = c.found.reads()
}

// misfitOf returns the schema violation of a whole request, or "". All values except the
// arguments are built with the types that the schema declares, so only missing arguments need
// this check. A fuzz test compares the result with the validator.
func (c *call) misfitOf() string {
	context := c.contextOf(allAttributes)
	context["approval"] = c.voting.noApproval
	req := c.req
	req.Context = types.NewRecord(context)
	if err := c.rules.vocab.Check.Request(req); err != nil {
		return "the request does not fit the schema: " + expr.ClipText(err.Error())
	}
	return ""
}

// arguments returns context.args of a call whose arguments were checked. If no policy reads
// them, they are built for display, or to describe their missing members.
func (c *call) arguments() types.Record {
	if c.args == nil {
		values, _, _, _ := args.Values(c.input, c.request.Args)
		c.args = &values
	}
	return *c.args
}

// contextOf returns the wanted attributes of CallContext, CommitContext or InjectionContext
// (vocabulary.cedarschema) that the call has, without the approval.
func (c *call) contextOf(want attributes) types.RecordMap {
	want &= c.has
	m := make(types.RecordMap, want.size()+1)
	for a, name := range want.all() {
		if v := c.fact(a); v != nil {
			m[name] = v
		}
	}
	return m
}

// prepareCommit converts a request about a change set to Cedar's terms. Its whole context is
// built with the types that the schema declares, so it always fits.
func (e *evaluator) prepareCommit(r *Request) (*call, *refusal) {
	c, refused := e.newCall(r, commitAttributes)
	if refused != nil {
		return nil, refused
	}
	c.req.Action = types.NewEntityUID(names.TypeAction, names.CommitAction)
	c.req.Resource = types.NewEntityUID(names.TypeWorkspace, types.String(r.Commit.Workspace))
	if _, known := e.rules.dir.Entities[c.req.Resource]; !known {
		c.entities.Extra = append(c.entities.Extra, types.Entity{
			UID: c.req.Resource, Attributes: types.NewRecord(resourceAttributes(names.TypeWorkspace, r.Commit.Workspace)),
		})
	}
	c.findPolicies()
	c.context = c.contextOf(c.reads)
	return c, nil
}

// prepareInjection converts a request about a secret for a program to Cedar's terms. Like the
// context of a commit, its context always fits the schema.
func (e *evaluator) prepareInjection(r *Request) (*call, *refusal) {
	c, refused := e.newCall(r, injectAttributes)
	if refused != nil {
		return nil, refused
	}
	resource := AccessRequest{Resource: r.Injection.Secret}.resource(names.TypeSecret, e.rules.dir)
	c.req.Action, c.req.Resource = types.NewEntityUID(names.TypeAction, names.InjectAction), resource.UID
	c.entities.Extra = append(c.entities.Extra, resource)
	c.findPolicies()
	c.context = c.contextOf(c.reads)
	return c, nil
}

// facts returns the approval facts of some votes on the call.
func (c *call) facts(ballots []ballot, standing bool) types.Record {
	return c.voting.tally.facts(c.is, c.requester, ballots, standing)
}

// voters returns the users who may decide the call at a severity, for a gateway of a reach.
func (c *call) voters(within reach, severity string) *electorate {
	e := c.voting.electorateWithin(within, c.requester, severity)
	if !c.shared {
		return e
	}
	return &electorate{severity: e.severity, ballots: e.ballots, facts: c.facts(e.ballots, false)}
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
	out := c.rules.run(c.found, c.entities, req)
	if !approved {
		c.settled = &out
	}
	return out
}
