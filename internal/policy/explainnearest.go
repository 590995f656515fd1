package policy

import (
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
)

// effort is how hard something is to change, the easiest first. It orders
// permits that are equally near, and flips with equally many steps.
type effort int

const (
	effortApproval effort = iota + 1 // a person says yes
	effortCaller                     // the caller calls with something else
	effortWorld                      // the world around the call is another
	effortEntity                     // an operator changes a list, a role or a tool
	effortOrigin                     // somebody else calls, or from elsewhere
	effortPolicy                     // an operator changes a policy
)

// nearest returns the permit for the tool of which the fewest parts are false,
// among equals the one whose parts are easiest to change, then the first.
func (v *sight) nearest() *NearestPermit {
	var best *NearestPermit
	least := 0
	for _, p := range v.set.policies {
		if !p.permits() || !v.set.dir.inScope(v.call.req.Action, p.ast.Action) {
			continue
		}
		parts, hard := v.falseParts(p)
		if cost := 1000*len(parts) + hard; best == nil || cost < least {
			best = &NearestPermit{ID: p.id, File: p.source.name, Line: p.line, False: parts}
			least = cost
		}
	}
	return best
}

// falseParts lists what is not as a permit wants it, with the sum of efforts.
// A conjunct that Cedar would not reach counts as well.
func (v *sight) falseParts(p *compiled) (parts []string, hard int) {
	d := v.set.dir
	if !d.inScope(v.call.req.Principal, p.ast.Principal) {
		parts = append(parts, scopeFault("principal", p.ast.Principal))
		hard += int(scopeEffort(p.ast.Principal))
	}
	if !d.inScope(v.call.req.Resource, p.ast.Resource) {
		parts = append(parts, scopeFault("resource", p.ast.Resource))
		hard += int(scopeEffort(p.ast.Resource))
	}
	for _, cond := range p.conditions() {
		fault, cost := v.clauseFaults(p, cond)
		parts, hard = append(parts, fault...), hard+cost
	}
	return parts, hard
}

// clauseFaults lists the false conjuncts of a when, or an unless as a whole.
func (v *sight) clauseFaults(p *compiled, cond condition) (parts []string, hard int) {
	if !cond.when {
		if !v.holds(cond.body) {
			return nil, 0
		}
		return []string{p.textOf(cond.body) + " is true"}, int(effortOf(cond.body))
	}
	for _, t := range splitTree(cond.body) {
		value, err := evalNode(t.node, v.env)
		switch {
		case err != nil:
			parts = append(parts, p.textOf(t)+" cannot be evaluated")
		case value != types.Boolean(true):
			parts = append(parts, p.textOf(t)+" is false")
		default:
			continue
		}
		hard += int(effortOf(t))
	}
	return parts, hard
}

// holds reports whether a condition is true; one that fails is.
func (v *sight) holds(t *tree) bool {
	value, err := evalNode(t.node, v.env)
	return err != nil || value == types.Boolean(true)
}

// scopeFault says in words that a variable does not match its scope.
func scopeFault(variable string, scope scopeNode) string {
	switch s := scope.(type) {
	case scopeEq:
		return fmt.Sprintf("%s is not %s", variable, s.Entity)
	case scopeIn:
		return fmt.Sprintf("%s is not in %s", variable, s.Entity)
	case scopeIs:
		return fmt.Sprintf("%s is not of type %s", variable, s.Type)
	case scopeIsIn:
		return fmt.Sprintf("%s is not of type %s in %s", variable, s.Type, s.Entity)
	default:
		return variable + " does not match"
	}
}

func scopeEffort(scope scopeNode) effort {
	if _, ok := scope.(scopeIn); ok {
		return effortEntity
	}
	return effortOrigin
}

// effortOf is that of the easiest place that an expression reads.
func effortOf(t *tree) effort {
	least := effortPolicy
	for _, chain := range reads(t) {
		least = min(least, effortOfPlace(chain))
	}
	return least
}

// effortOfPlace sorts the places of a request by who can change them.
func effortOfPlace(chain []string) effort {
	if len(chain) < 2 || chain[0] != "context" {
		return effortEntity
	}
	row := factOfName(strings.Join(chain[1:], "."))
	if row == nil {
		row = factOfName(chain[1])
	}
	switch {
	case row == nil:
		return effortWorld
	case row.Change == ByVote:
		return effortApproval
	case row.Change == ByArgument:
		return effortCaller
	case row.Origin == ofCall || row.Origin == ofCaller:
		return effortOrigin
	default:
		return effortWorld
	}
}

// summarize says in one sentence what decided and what to change.
func summarize(e *Explanation, v Verdict) string {
	why := e.cause(v)
	if len(e.Flips) > 0 {
		return why + ": " + e.Flips[0].advice
	}
	return why + "."
}

// cause says what the verdict rests on.
func (e *Explanation) cause(v Verdict) string {
	var names []string
	for _, d := range v.determining {
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
	case e.Effect == Allow && v.grantID != "":
		return "Allowed by grant " + v.grantID + " under " + by
	case e.Effect == Allow:
		return "Allowed by " + by
	case e.Effect == Ask:
		return "Asked because of " + by
	case by == "" && e.Nearest != nil:
		return "Denied" + file + " because nothing permits it, nearest " + e.Nearest.String()
	case by == "":
		return "Denied" + file + " because nothing permits it"
	default:
		return "Denied" + file + " by " + by
	}
}
