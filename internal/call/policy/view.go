package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/args"
	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/core/access"
)

// View gives explanations, warnings and tests read access to a set: its policies as written,
// its principals and resources, and the Cedar form of a call. It cannot create a verdict, or a
// set that could come into force.
type View struct{ set *Set }

// View returns a view of the set.
func (s *Set) View() View { return View{s} }

// Examine returns a view of the set of a configuration with all findings, including errors.
// Load returns the same set, or none.
func Examine(cfg Config) (View, []finding.Finding) {
	s, findings := build(cfg, Defaults())
	return View{s}, findings
}

// Config returns the inputs of the set.
func (v View) Config() Config {
	if v.set == nil {
		return Config{}
	}
	return v.set.config
}

// Policies returns the policies of the set in order, the embedded defaults first.
func (v View) Policies() []*expr.Policy {
	if v.set == nil {
		return nil
	}
	return candidates(v.set.rules.policies).parsed()
}

func (c candidates) parsed() []*expr.Policy {
	out := make([]*expr.Policy, len(c))
	for i, p := range c {
		out[i] = p.Policy
	}
	return out
}

// InScope reports whether a scope clause matches an entity.
func (v View) InScope(uid types.EntityUID, scope expr.ScopeNode) bool {
	return v.set.rules.dir.InScope(uid, scope)
}

// Above returns all groups that contain an entity, in no particular order.
func (v View) Above(uid types.EntityUID) []types.EntityUID { return v.set.rules.dir.Ancestors[uid] }

// Entities lists the entities of a type, by name.
func (v View) Entities(t types.EntityType) []types.EntityUID {
	var out []types.EntityUID
	for uid := range v.set.rules.dir.Entities {
		if uid.Type == t {
			out = append(out, uid)
		}
	}
	slices.SortFunc(out, entities.Compare)
	return out
}

// Roles returns the built-in roles and the declared ones.
func (v View) Roles() []access.Role { return v.set.rules.vocab.Roles }

// Arguments returns the form of a tool's input, nil for a tool that is not pinned.
func (v View) Arguments(tool string) *args.Type { return v.set.rules.vocab.Args[tool] }

// Voting returns the surfaces for votes, and whether presence can be proven.
func (v View) Voting() (on []access.Surface, present bool) {
	return v.set.voting.offers.list(), v.set.voting.offers.present
}

// Call is a request in the form that policies read.
type Call struct {
	Env expr.Env
	// Policies are the policies whose scope matches the call.
	Policies []*expr.Policy
}

// Call returns a request about one file with some votes; false if it has no Cedar form. If the
// gate of its skill is closed, it returns the request of the gate.
func (v View) Call(r Request, a Approval) (Call, bool) {
	if gate := v.set.access.skillGate(&r); gate != nil && !gate.Allowed {
		return v.Gate(r)
	}
	c, refused := v.set.evaluator.prepare(&r)
	if refused != nil {
		return Call{}, false
	}
	context := c.contextOf(allAttributes)
	context["approval"] = v.set.voting.noApproval
	if len(a.Votes) > 0 {
		context["approval"] = c.facts(v.set.voting.ballots(a, c.requester), a.Standing)
	}
	return Call{Env: envOf(c.entities, c.req, types.NewRecord(context)), Policies: v.set.rules.inScope(c.req).parsed()}, true
}

// Gate returns the request that decides whether the caller may run the skill of a call about
// one file. It returns false for a call without a skill, and if the request has no Cedar form.
func (v View) Gate(r Request) (Call, bool) {
	if v.set.access.skillGate(&r) == nil {
		return Call{}, false
	}
	req, known, misfit := v.set.access.request(skillRequest(r.Caller, r.SkillID))
	if misfit != "" {
		return Call{}, false
	}
	return Call{Env: envOf(known, req, req.Context), Policies: v.set.rules.inScope(req).parsed()}, true
}

// Change is a modified set for evaluating a call. It keeps the tools and roles of the original
// set, because the schema is not rebuilt.
type Change struct {
	Config    Config
	Drop, Add []*expr.Policy
}

// Tried is the result of a hypothetical evaluation.
type Tried struct {
	Effect      Effect
	Determining []Determining
	Errors      []string
}

// Try evaluates a call with the given votes, under a modified set unless the change is nil. The
// modified set is not validated again and is used only for this result.
func (v View) Try(change *Change, r Request, a Approval) Tried {
	s := v.set
	if change != nil {
		s = v.changed(change)
	}
	out := s.Simulate(r, a, nil)
	return Tried{out.effect, out.determining, out.errors}
}

// TryAccess evaluates access requests one by one under a modified set, to determine the
// permissions that members would have. As with Try, the modified set never comes into force.
func (v View) TryAccess(change *Change, requests ...AccessRequest) []Judgement {
	s := v.changed(change)
	out := make([]Judgement, len(requests))
	for i, r := range requests {
		out[i] = s.access.Authorize(r)
	}
	return out
}

func (v View) changed(change *Change) *Set {
	s := newSet(change.Config, v.set.rules.vocab, v.set.voting.tally)
	for _, p := range v.set.rules.policies {
		if !slices.Contains(change.Drop, p.Policy) {
			s.rules.policies = append(s.rules.policies, p)
		}
	}
	for _, p := range change.Add {
		s.rules.policies = append(s.rules.policies, compile(p))
	}
	for _, p := range s.rules.policies {
		s.rules.byID[cedar.PolicyID(p.ID)] = p
	}
	s.rules.index = buildIndex(s.rules.policies)
	s.voting.findSole()
	return s
}

// asksPresence reports whether a policy reads the presence of a vote, or contains a vote
// literal with presence.
func (c *compiled) asksPresence() bool {
	if c.Mentions("context", "present") {
		return true
	}
	return c.votes && slices.ContainsFunc(c.Constants(), func(v types.Value) bool {
		vote, ok := v.(types.Record)
		if !ok {
			return false
		}
		present, ok := vote.Get("present")
		return ok && present.Equal(types.True)
	})
}

// NobodyPresent reports policies that require proof of presence if no user with a presence key
// may decide an approval; otherwise it returns "".
func (v View) NobodyPresent(proving []access.Principal) (problem, remedy string) {
	var asking []string
	for _, p := range v.set.rules.policies {
		if p.asksPresence() {
			asking = append(asking, p.ID)
		}
	}
	if len(asking) == 0 || slices.ContainsFunc(v.set.rules.dir.Voters, func(m access.Member) bool {
		return slices.Contains(proving, m.Principal) && v.set.voting.decidesByPolicy(m.Principal)
	}) {
		return "", ""
	}
	slices.Sort(asking)
	return "a vote that is present is asked for by " + strings.Join(asking, ", ") + ", and no approver has a confirmed presence key: calls that need it cannot be allowed",
		"Make one with the credential of a device: `palyra key presence --passphrase`. One that waits is confirmed by `palyrad presence confirm DEVICE` on the gateway's host."
}

// envOf returns the environment of the conditions of a request.
func envOf(known *entities.Overlay, req cedar.Request, context types.Record) expr.Env {
	return expr.Env{Entities: known, Principal: req.Principal, Action: req.Action, Resource: req.Resource, Context: context}
}

// Simulate is Evaluate with hypothetical votes on the call: if they suffice, the ask becomes an
// allow, otherwise the verdict names the missing votes.
func (s *Set) Simulate(r Request, a Approval, grants []Grant) Verdict {
	v := s.Evaluate(r, grants)
	if len(a.Votes) == 0 {
		return v
	}
	j := s.Judge(r, a)
	if j.Allowed {
		return Verdict{effect: Allow, determining: j.Determining, snapshot: s.snapshotDigest, version: s.version, gate: v.gate}
	}
	if v.effect == Ask {
		v.missing, v.wanted = j.Missing, j.Wanted
	}
	return v
}
