package policy

import (
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/args"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/access"
)

// View is what explanations, warnings and tests may see of a set: its policies
// as they are written, who and what there is, and how a call looks to Cedar. It
// makes no verdict and no set that could come into force.
type View struct{ set *Set }

// View shows the set.
func (s *Set) View() View { return View{s} }

// Examine shows the set that a configuration makes, with all findings, errors
// among them. Load makes the same set, or none.
func Examine(cfg Config) (View, []finding.Finding) {
	s, findings := build(cfg, Defaults())
	return View{s}, findings
}

// Config is what the set was built from.
func (v View) Config() Config {
	if v.set == nil {
		return Config{}
	}
	return v.set.config
}

// Policies are those of the set in order, the embedded defaults first.
func (v View) Policies() []*expr.Policy {
	if v.set == nil {
		return nil
	}
	return candidates(v.set.policies).parsed()
}

func (c candidates) parsed() []*expr.Policy {
	out := make([]*expr.Policy, len(c))
	for i, p := range c {
		out[i] = p.Policy
	}
	return out
}

// InScope reports whether a clause of a scope holds for an entity.
func (v View) InScope(uid types.EntityUID, scope expr.ScopeNode) bool {
	return v.set.dir.inScope(uid, scope)
}

// Above are all groups that an entity is in, in no order.
func (v View) Above(uid types.EntityUID) []types.EntityUID { return v.set.dir.ancestors[uid] }

// Entities lists those of a type, by name.
func (v View) Entities(t types.EntityType) []types.EntityUID {
	var out []types.EntityUID
	for uid := range v.set.dir.entities {
		if uid.Type == t {
			out = append(out, uid)
		}
	}
	slices.SortFunc(out, compareUID)
	return out
}

// Roles are the built-in roles and the declared ones.
func (v View) Roles() []access.Role { return v.set.vocab.roles }

// Arguments is the form of a tool's input, nil for a tool that is not pinned.
func (v View) Arguments(tool string) *args.Type { return v.set.vocab.args[tool] }

// Voting is where people can vote here, and whether they can prove to be
// present.
func (v View) Voting() (on []access.Surface, present bool) {
	return v.set.offers.list(), v.set.offers.present
}

// Call is a request as policies see it.
type Call struct {
	Env expr.Env
	// Policies are those whose scope the call is in.
	Policies []*expr.Policy
}

// Call shows a request about one file under some votes; false when it has no
// Cedar form. Of a call of a skill that may not run it shows the question of that.
func (v View) Call(r Request, a Approval) (Call, bool) {
	if gate := v.set.skillGate(&r); gate != nil && !gate.Allowed {
		return v.Gate(r)
	}
	c, refused := v.set.prepare(&r)
	if refused != nil {
		return Call{}, false
	}
	context := c.contextOf(allAttributes)
	context["approval"] = v.set.noApproval
	if len(a.Votes) > 0 {
		context["approval"] = c.facts(v.set.ballots(a, c.requester), a.Standing)
	}
	return Call{Env: c.env(types.NewRecord(context)), Policies: v.set.inScope(c.req).parsed()}, true
}

// Gate shows the question whether the caller may run the skill of a call about one file;
// false for a call of no skill.
func (v View) Gate(r Request) (Call, bool) {
	if v.set.skillGate(&r) == nil {
		return Call{}, false
	}
	req, entities, misfit := v.set.accessRequest(skillRequest(r.Caller, r.SkillID))
	if misfit != "" {
		return Call{}, false
	}
	return Call{Env: expr.Env{
		Entities: entities, Principal: req.Principal, Action: req.Action, Resource: req.Resource, Context: req.Context,
	}, Policies: v.set.inScope(req).parsed()}, true
}

// Change is another set to try a call under. Tools and roles are those of the
// set, for the schema stays.
type Change struct {
	Config    Config
	Drop, Add []*expr.Policy
}

// Tried is what a verdict would say.
type Tried struct {
	Effect      Effect
	Determining []Determining
	Errors      []string
}

// Try evaluates a call with the votes given, under another set unless the
// change is nil. Nothing of that set is validated: it is made of what was, and
// only what it would say comes out.
func (v View) Try(change *Change, r Request, a Approval) Tried {
	s := v.set
	if change != nil {
		s = v.changed(change)
	}
	out := s.Simulate(r, a, nil)
	return Tried{out.effect, out.determining, out.errors}
}

// TryAccess asks the access rules under another set, each in turn: who would have
// which permission if members were others. As with Try, that set never comes into
// force.
func (v View) TryAccess(change *Change, requests ...AccessRequest) []Judgement {
	s := v.changed(change)
	out := make([]Judgement, len(requests))
	for i, r := range requests {
		out[i] = s.Authorize(r)
	}
	return out
}

func (v View) changed(change *Change) *Set {
	s := newSet(change.Config, v.set.vocab, v.set.tally)
	for _, p := range v.set.policies {
		if !slices.Contains(change.Drop, p.Policy) {
			s.policies = append(s.policies, p)
		}
	}
	for _, p := range change.Add {
		s.policies = append(s.policies, compile(p))
	}
	for _, p := range s.policies {
		s.byID[cedar.PolicyID(p.ID)] = p
	}
	s.index = buildIndex(s.policies)
	s.findSole()
	return s
}
