package explain

import (
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/internal/expr"
)

// effort ranks changes by difficulty, the easiest first. It orders permits that are equally
// near, and flips with equally many steps.
type effort int

const (
	effortApproval effort = iota + 1 // a person approves
	effortCaller                     // the caller changes the call
	effortWorld                      // the environment of the call changes
	effortEntity                     // an operator changes a list, a role or a tool
	effortOrigin                     // another caller, or another origin
	effortPolicy                     // an operator changes a policy
)

// nearest returns the permit for the tool with the fewest false parts. Among equals it prefers
// the one whose parts are easiest to change, then the first.
func (v *sight) nearest() *Nearest { return v.nearestOf(v.view.Policies()) }

func (v *sight) nearestOf(policies []*expr.Policy) *Nearest {
	var best *Nearest
	least := 0
	for _, p := range policies {
		if !p.Permits() || !v.view.InScope(uidIn(v.env.Action), p.AST.Action) {
			continue
		}
		parts, hard := v.falseParts(p)
		if cost := 1000*len(parts) + hard; best == nil || cost < least {
			best = &Nearest{ID: p.ID, File: p.Source.Name, Line: p.Line, False: parts}
			least = cost
		}
	}
	return best
}

// falseParts lists the unsatisfied parts of a permit, with the sum of efforts. Conjuncts that
// Cedar would not reach count as well.
func (v *sight) falseParts(p *expr.Policy) (parts []string, hard int) {
	if !v.view.InScope(uidIn(v.env.Principal), p.AST.Principal) {
		parts = append(parts, scopeFault("principal", p.AST.Principal))
		hard += int(scopeEffort(p.AST.Principal))
	}
	if !v.view.InScope(uidIn(v.env.Resource), p.AST.Resource) {
		parts = append(parts, scopeFault("resource", p.AST.Resource))
		hard += int(scopeEffort(p.AST.Resource))
	}
	for _, cond := range p.Conditions() {
		fault, cost := v.clauseFaults(p, cond)
		parts, hard = append(parts, fault...), hard+cost
	}
	for _, name := range policy.Unread(p, &v.request) {
		parts, hard = append(parts, unreadText(name)+", is false"), hard+int(effortPolicy)
	}
	return parts, hard
}

// clauseFaults lists the false conjuncts of a when, or an unless as a whole.
func (v *sight) clauseFaults(p *expr.Policy, cond expr.Condition) (parts []string, hard int) {
	if !cond.When {
		if !v.holds(cond.Body) {
			return nil, 0
		}
		return []string{p.TextOf(cond.Body) + " is true"}, int(effortOf(cond.Body))
	}
	for _, t := range expr.SplitTree(cond.Body) {
		value, err := expr.Eval(t.Node, v.env)
		switch {
		case err != nil:
			parts = append(parts, p.TextOf(t)+" cannot be evaluated")
		case value != types.Boolean(true):
			parts = append(parts, p.TextOf(t)+" is false")
		default:
			continue
		}
		hard += int(effortOf(t))
	}
	return parts, hard
}

// holds reports whether a condition is true; a condition that fails counts as true.
func (v *sight) holds(t *expr.Tree) bool {
	value, err := expr.Eval(t.Node, v.env)
	return err != nil || value == types.Boolean(true)
}

// scopeFault describes the mismatch of a variable and its scope.
func scopeFault(variable string, scope expr.ScopeNode) string {
	switch s := scope.(type) {
	case expr.ScopeEq:
		return fmt.Sprintf("%s is not %s", variable, s.Entity)
	case expr.ScopeIn:
		return fmt.Sprintf("%s is not in %s", variable, s.Entity)
	case expr.ScopeIs:
		return fmt.Sprintf("%s is not of type %s", variable, s.Type)
	case expr.ScopeIsIn:
		return fmt.Sprintf("%s is not of type %s in %s", variable, s.Type, s.Entity)
	default:
		return variable + " does not match"
	}
}

func scopeEffort(scope expr.ScopeNode) effort {
	if _, ok := scope.(expr.ScopeIn); ok {
		return effortEntity
	}
	return effortOrigin
}

// effortOf returns the effort of the easiest place that an expression reads.
func effortOf(t *expr.Tree) effort {
	least := effortPolicy
	for _, chain := range expr.Reads(t) {
		least = min(least, effortOfPlace(chain))
	}
	return least
}

// effortOfPlace ranks the places of a request by the people who can change them.
func effortOfPlace(chain []string) effort {
	if len(chain) < 2 || chain[0] != "context" {
		return effortEntity
	}
	row := policy.FactNamed(strings.Join(chain[1:], "."))
	if row == nil {
		row = policy.FactNamed(chain[1])
	}
	switch {
	case row == nil:
		return effortWorld
	case row.Change == policy.ByVote:
		return effortApproval
	case row.Change == policy.ByArgument || row.Change == policy.ByReason:
		return effortCaller
	case row.Brought():
		return effortOrigin
	default:
		return effortWorld
	}
}

// summarize names the deciding policies and the best change in one sentence.
func summarize(e *Explanation, v policy.Verdict) string {
	why := e.cause(v)
	if len(e.Flips) > 0 {
		return why + ": " + e.Flips[0].advice
	}
	return why + "."
}

// cause describes the policies that the verdict rests on.
func (e *Explanation) cause(v policy.Verdict) string {
	var names []string
	for _, d := range v.Determining() {
		names = append(names, fmt.Sprintf("%s (%s:%d)", d.ID, d.File, d.Line))
	}
	by := strings.Join(names, " and ")
	file := ""
	if e.Path != "" {
		file = " for " + e.Path
	}
	switch {
	case len(e.Errors) > 0:
		return "Denied" + file + " because it cannot be decided (" + e.Errors[0] + ")"
	case e.Effect == policy.Allow && v.GrantID() != "":
		return "Allowed by grant " + v.GrantID() + " under " + by
	case e.Effect == policy.Allow:
		return "Allowed by " + by
	case e.Effect == policy.Ask:
		return "Asked because of " + by
	case by == "" && e.Nearest != nil:
		return "Denied" + file + " because nothing permits it, nearest " + e.Nearest.String()
	case by == "":
		return "Denied" + file + " because nothing permits it"
	default:
		return "Denied" + file + " by " + by
	}
}

// uidIn returns the entity of a variable.
func uidIn(v types.Value) types.EntityUID {
	uid, _ := v.(types.EntityUID)
	return uid
}
