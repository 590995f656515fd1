package policy

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/args"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// refusal is the reason why a request cannot be evaluated and is therefore denied.
type refusal struct {
	code    reason.Code
	message string
}

// prepare converts a request to Cedar's terms.
func (s *Set) prepare(r *Request) (*call, *refusal) {
	input, known := s.vocab.Args[r.Tool]
	if !known || r.Tool == names.UnknownTool {
		return nil, &refusal{reason.UnknownTool, fmt.Sprintf("no pinned tool is named %q", expr.ClipText(r.Tool))}
	}
	if r.Commit != nil {
		return s.prepareCommit(r)
	}
	if r.Injection != nil {
		return s.prepareInjection(r)
	}
	return s.prepareKnown(r, input)
}

func (s *Set) prepareKnown(r *Request, input *args.Type) (*call, *refusal) {
	// A call that does not name its skill would bypass the skill gate.
	if skill := s.dir.Skills[r.Tool]; skill != "" && skill != r.SkillID {
		return nil, &refusal{reason.PolicyError, fmt.Sprintf("the call of %s does not name its skill %s", r.Tool, skill)}
	}
	c, refused := s.newCall(r, callAttributes)
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
		c.misfit = s.misfitOf(c)
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
func (s *Set) newCall(r *Request, has attributes) (*call, *refusal) {
	c := &call{set: s, request: r, has: has, requester: s.dir.Requester(r.Caller), is: s.independence}
	var others []access.Principal
	for _, other := range r.Beside {
		others = append(others, s.dir.Requester(other))
	}
	// Another principal that controls the agent, such as its creator, could be behind its calls.
	if agent := r.Caller.Principal; agent.Kind == access.KindAgent && s.independence.Apart(agent, c.requester) {
		others = append(others, agent)
	}
	if c.shared = len(others) > 0; c.shared {
		c.is = s.independence.Beside(others...)
	}
	principal, known, ok := s.dir.Principal(r.Caller.Principal)
	if !ok {
		return nil, &refusal{reason.PolicyError, fmt.Sprintf("the caller %q is not a valid principal", r.Caller.Principal)}
	}
	c.entities, c.req.Principal = known, principal
	return c, nil
}

// findPolicies finds the candidates and the attributes that they read.
func (c *call) findPolicies() {
	c.found = c.set.candidates(c.req).covering(c.request)
	c.reads = c.found.reads()
}

// misfitOf returns the schema violation of a whole request, or "". All values except the
// arguments are built with the types that the schema declares, so only missing arguments need
// this check. A fuzz test compares the result with the validator.
func (s *Set) misfitOf(c *call) string {
	context := c.contextOf(allAttributes)
	context["approval"] = s.noApproval
	req := c.req
	req.Context = types.NewRecord(context)
	if err := s.vocab.Check.Request(req); err != nil {
		return "the request does not fit the schema: " + expr.ClipText(err.Error())
	}
	return ""
}

// candidates returns the policies that the index finds for a request.
func (s *Set) candidates(req cedar.Request) candidates {
	return s.index.find(
		s.dir.KeysOf(req.Action), s.dir.KeysOf(req.Resource), s.dir.KeysOf(req.Principal),
	)
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

// entrance has the parts of the context of the API's own actions: how a caller authenticated.
type entrance struct {
	device          string
	surface         access.Surface
	paired, present bool
	// skill is the skill whose guest would use a secret, or "".
	skill string
}

// accessContext returns the context of the API's own actions.
func (s *Set) accessContext(c access.Caller, skill string) types.Record {
	e := entrance{c.DeviceID, c.Surface, c.Paired, c.Present, skill}
	return s.entrances.get(e, func() types.Record {
		attributes := types.RecordMap{
			"device_id": types.String(e.device),
			"surface":   types.String(e.surface),
			"paired":    types.Boolean(e.paired),
			"present":   types.Boolean(e.present),
		}
		if e.skill != "" {
			attributes["skill"] = types.NewEntityUID(names.TypeSkill, types.String(e.skill))
		}
		return types.NewRecord(attributes)
	})
}

// prepareCommit converts a request about a change set to Cedar's terms. Its whole context is
// built with the types that the schema declares, so it always fits.
func (s *Set) prepareCommit(r *Request) (*call, *refusal) {
	c, refused := s.newCall(r, commitAttributes)
	if refused != nil {
		return nil, refused
	}
	c.req.Action = types.NewEntityUID(names.TypeAction, names.CommitAction)
	c.req.Resource = types.NewEntityUID(names.TypeWorkspace, types.String(r.Commit.Workspace))
	if _, known := s.dir.Entities[c.req.Resource]; !known {
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
func (s *Set) prepareInjection(r *Request) (*call, *refusal) {
	c, refused := s.newCall(r, injectAttributes)
	if refused != nil {
		return nil, refused
	}
	resource := AccessRequest{Resource: r.Injection.Secret}.resource(names.TypeSecret, s.dir)
	c.req.Action, c.req.Resource = types.NewEntityUID(names.TypeAction, names.InjectAction), resource.UID
	c.entities.Extra = append(c.entities.Extra, resource)
	c.findPolicies()
	c.context = c.contextOf(c.reads)
	return c, nil
}

// memo caches Cedar records that repeat from call to call: hashing them is most of the cost of
// a context. It holds at most maxMemo records, so that no caller can grow it.
type memo struct {
	records sync.Map
	size    atomic.Int64
}

const maxMemo = 256

func (m *memo) get(key any, record func() types.Record) types.Record {
	if found, ok := m.records.Load(key); ok {
		if v, ok := found.(types.Record); ok {
			return v
		}
	}
	v := record()
	if m.size.Add(1) <= maxMemo {
		m.records.Store(key, v)
	}
	return v
}
