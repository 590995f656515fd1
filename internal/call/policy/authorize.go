package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// ApprovalResource is an approval record as a resource of the access rules.
type ApprovalResource struct {
	// ID is the record's ULID, or "" for records of this kind in general.
	ID       string
	Severity string
	// Requester is the user whose call needs the approval; zero if none exists.
	Requester access.Principal
}

// AccessRequest is a request to check a permission of a caller.
type AccessRequest struct {
	Caller     access.Caller
	Permission access.Permission
	// Approval is the resource of approval.* permissions; nil means approvals in general.
	Approval *ApprovalResource
	// Resource names the resource of permissions that have one, such as a secret
	// ("user:ann/smtp") or a workspace; "" means the gateway as a whole.
	Resource string
	// Skill is the skill whose guest would use the secret, or "".
	Skill string
}

// AccessRules judge the permissions of callers: the API's permissions are Cedar policies too.
// They are safe for concurrent use.
type AccessRules struct {
	rules *rules
	// entrances caches the contexts of the API's own actions.
	entrances memo
}

// Authorize evaluates the access rules. A permission outside the vocabulary is denied.
func (a *AccessRules) Authorize(r AccessRequest) Judgement {
	if bounds := r.Caller.Token; bounds != nil {
		return a.authorizeToken(r, *bounds)
	}
	req, known, misfit := a.request(r)
	if misfit != "" {
		return Judgement{Errors: []string{misfit}}
	}
	out := a.rules.run(a.rules.candidates(req), known, req)
	return Judgement{Allowed: out.allowed, Determining: describe(out.determining), Errors: out.errors}
}

// request converts a request to Cedar's terms. misfit is the reason why the conversion is
// impossible, or "". A request with a misfit is denied.
func (a *AccessRules) request(r AccessRequest) (req cedar.Request, known *entities.Overlay, misfit string) {
	action := types.NewEntityUID(names.TypeAction, types.String(r.Permission))
	declared, ok := a.rules.vocab.Schema.Actions[action]
	if !ok || declared.AppliesTo == nil || len(declared.AppliesTo.Resources) == 0 {
		return req, nil, "the vocabulary has no permission " + expr.ClipText(string(r.Permission))
	}
	principal, known, ok := a.rules.dir.Principal(r.Caller.Principal)
	if !ok {
		return req, nil, "the caller is not a valid principal"
	}
	resource := r.resource(declared.AppliesTo.Resources[0], a.rules.dir)
	if _, has := a.rules.dir.Entities[resource.UID]; !has {
		known.Extra = append(known.Extra, resource)
	}
	req = cedar.Request{Principal: principal, Action: action, Resource: resource.UID, Context: a.context(r.Caller, r.Skill)}
	if err := a.rules.vocab.Check.Request(req); err != nil {
		return req, nil, "the request does not fit the schema: " + expr.ClipText(err.Error())
	}
	return req, known, ""
}

// resource returns the entity that a permission applies to.
func (r AccessRequest) resource(t types.EntityType, dir *entities.Directory) types.Entity {
	name := cmp.Or(r.Resource, names.GatewayID)
	if t != names.TypeApproval {
		uid := types.NewEntityUID(t, types.String(name))
		if t == names.TypeSecret {
			return types.Entity{UID: uid, Attributes: types.NewRecord(r.secret(dir))}
		}
		return types.Entity{UID: uid, Attributes: types.NewRecord(resourceAttributes(t, name))}
	}
	a := r.Approval
	if a == nil {
		a = &ApprovalResource{}
	}
	attributes := types.RecordMap{"severity": types.String(a.Severity)}
	if a.Requester.Kind == access.KindUser {
		attributes["requester"] = names.UID(a.Requester)
	}
	return types.Entity{UID: types.NewEntityUID(names.TypeApproval, types.String(a.ID)), Attributes: types.NewRecord(attributes)}
}

// secret returns the attributes of the secret that a permission applies to, named
// "<scope>/<key>".
func (r AccessRequest) secret(dir *entities.Directory) types.RecordMap {
	if r.Resource == "" {
		return types.RecordMap{"name": types.String(names.GatewayID), "scope": types.String("")}
	}
	scope, _, _ := strings.Cut(r.Resource, "/")
	attributes := types.RecordMap{"name": types.String(r.Resource), "scope": types.String(scope)}
	if skill, ok := strings.CutPrefix(scope, "skill:"); ok {
		attributes["skill"] = types.NewEntityUID(names.TypeSkill, types.String(skill))
	}
	switch of, err := access.ParsePrincipal(scope); {
	case err == nil && of.Kind == access.KindUser:
		attributes["owner"] = names.UID(of)
	case err == nil && of.Kind == access.KindAgent:
		attributes["agent"] = names.UID(of)
		if m, known := dir.Members[of]; known && !m.Owner.IsZero() {
			attributes["owner"] = names.UID(m.Owner)
		}
	}
	return attributes
}

// resourceAttributes returns the name attribute of named resources, as the schema requires.
func resourceAttributes(t types.EntityType, name string) types.RecordMap {
	if t == names.TypePolicy || t == names.TypeGateway {
		return nil
	}
	return types.RecordMap{"name": types.String(name)}
}

// authorizeToken decides for a caller with an API token. The permission must be within the
// token's scopes, and both the token's holder and its creator must have it. If the creator
// loses a role, the token therefore loses it too.
func (a *AccessRules) authorizeToken(r AccessRequest, bounds access.TokenBounds) Judgement {
	if !slices.Contains(bounds.Scopes, r.Permission) {
		return Judgement{Missing: "it is not among the token's scopes"}
	}
	r.Caller.Token = nil
	holder := a.Authorize(r)
	if !holder.Allowed || bounds.Creator == r.Caller.Principal {
		return holder
	}
	r.Caller.Principal, r.Caller.OnBehalfOf = bounds.Creator, bounds.Creator
	creator := a.Authorize(r)
	if !creator.Allowed {
		creator.Missing = bounds.Creator.String() + ", who made the token, may not"
	}
	return creator
}

// entrance has the parts of the context of the API's own actions: how a caller authenticated.
type entrance struct {
	device          string
	surface         access.Surface
	paired, present bool
	// skill is the skill whose guest would use a secret, or "".
	skill string
}

// context returns the context of the API's own actions.
func (a *AccessRules) context(c access.Caller, skill string) types.Record {
	e := entrance{c.DeviceID, c.Surface, c.Paired, c.Present, skill}
	return a.entrances.get(e, func() types.Record {
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

// SkillGate is the decision whether a skill may run at all (action skill.execute). It is
// evaluated first for each call of one of the skill's tools. Approvals do not change it.
type SkillGate struct {
	Skill string `json:"skill"`
	// Caller is the caller who may not run the skill, otherwise the caller of the tool.
	Caller access.Principal `json:"principal"`
	Judgement
}

// skillGate returns nil for a call without a skill, and for commits and secrets, whose calls
// have passed the gate. Every requester of the call must pass.
func (a *AccessRules) skillGate(r *Request) *SkillGate {
	if r.SkillID == "" || r.Commit != nil || r.Injection != nil {
		return nil
	}
	gate := a.skillGateOf(r.Caller, r.SkillID)
	for i := 0; gate.Allowed && i < len(r.Editors); i++ {
		if other := a.skillGateOf(r.Editors[i], r.SkillID); !other.Allowed {
			gate = other
		}
	}
	return &gate
}

// skillGateOf evaluates one caller. Token bounds are ignored, as for the call itself: the API
// has already checked the scopes.
func (a *AccessRules) skillGateOf(caller access.Caller, skill string) SkillGate {
	return SkillGate{skill, caller.Principal, a.Authorize(skillRequest(caller, skill))}
}

func skillRequest(caller access.Caller, skill string) AccessRequest {
	caller.Token = nil
	return AccessRequest{Caller: caller, Permission: names.SkillAction, Resource: skill}
}

// Message describes the decision in a sentence.
func (g *SkillGate) Message() string {
	if g.Allowed {
		return fmt.Sprintf("%s may run the skill %s", g.Caller, g.Skill)
	}
	why := "no policy permits it"
	if len(g.Errors) > 0 {
		why = "policy could not be evaluated"
	}
	for _, d := range g.Determining {
		if d.Reason != "" {
			why = d.Reason
			break
		}
	}
	return fmt.Sprintf("%s may not run the skill %s: %s", g.Caller, g.Skill, why)
}

// Remedy is the next step, or "" if the gate is open or no policy names one.
func (g *SkillGate) Remedy() string {
	if g.Allowed {
		return ""
	}
	return firstRemedy(g.Determining)
}

func firstRemedy(list []Determining) string {
	for _, d := range list {
		if d.Remedy != "" {
			return d.Remedy
		}
	}
	return ""
}

// verdict returns the denial of a closed gate.
func (g *SkillGate) verdict() Verdict {
	v := Verdict{code: reason.PolicyDenied, determining: g.Determining, remedy: g.Remedy(), errors: g.Errors, gate: g}
	if len(g.Errors) > 0 {
		v.code = reason.PolicyError
	}
	return v
}
