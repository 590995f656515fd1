package policy

import (
	"github.com/cedar-policy/cedar-go/types"
)

// factKind says what a fact of the context is to the time between a decision
// and the run of its call.
type factKind uint8

const (
	// bound facts are the same when the call runs as when policy read them: the
	// permit holds their digest. context.path is one: a link that is turned
	// after the decision stops the call.
	bound factKind = iota + 1
	// fresh facts go on changing while a call waits: they are taken again, and
	// the call is judged again, right before its decision. context.session is
	// one.
	fresh
	// environment facts say what the machine gives. When one changed at
	// dispatch, the call is judged again, and refused when the verdict is
	// another.
	environment
)

// contextFact is one fact: its name in the context, what it is to time, and its
// value, nil where the call has none.
type contextFact struct {
	name  types.String
	kind  factKind
	value func(*call) types.Value
}

// contextFacts is the table of what policy can read of a call, in the order of
// the constants of attributes. Its rows have no field names, so that one without
// a kind does not compile.
var contextFacts = [...]contextFact{
	{"args", bound, func(c *call) types.Value { return c.args }},
	{"args_rest", bound, func(c *call) types.Value { return c.rest }},
	{"approval", fresh, func(*call) types.Value { return nil }}, // call.under gives it
	{"device_id", bound, func(c *call) types.Value { return types.String(c.request.Caller.DeviceID) }},
	{"session_id", bound, func(c *call) types.Value { return types.String(c.request.Session) }},
	{"run_id", bound, func(c *call) types.Value { return types.String(c.request.Run) }},
	{"tool_name", bound, func(c *call) types.Value { return types.String(c.request.Tool) }},
	{"skill_id", bound, func(c *call) types.Value { return types.String(c.request.SkillID) }},
	{"surface", bound, func(c *call) types.Value { return types.String(c.request.Caller.Surface) }},
	{"paired", bound, func(c *call) types.Value { return types.Boolean(c.request.Caller.Paired) }},
	{"present", bound, func(c *call) types.Value { return types.Boolean(c.request.Caller.Present) }},
	{"capabilities", bound, func(c *call) types.Value { return capabilitySet(c.request.Capabilities) }},
	{"now", fresh, func(c *call) types.Value { return types.NewDatetime(c.request.Time) }},
	{"channel", bound, func(c *call) types.Value { return named(typeChannel, c.request.Channel) }},
	{"skill", bound, func(c *call) types.Value { return named(typeSkill, c.request.SkillID) }},
	{"workspace", bound, func(c *call) types.Value { return named(typeWorkspace, c.request.Facts.Workspace) }},
	{"path", bound, func(c *call) types.Value { return textOrNone(c.request.Facts.Path) }},
	{"host", bound, func(c *call) types.Value { return textOrNone(c.request.Facts.Host) }},
	{"domain", bound, func(c *call) types.Value { return textOrNone(c.request.Facts.Domain) }},
	{"method", bound, func(c *call) types.Value { return textOrNone(c.request.Facts.Method) }},
	{"port", bound, portValue},
	{"protected", bound, func(c *call) types.Value { return types.Boolean(c.request.Facts.Protected) }},
	{"risk", bound, func(c *call) types.Value { return types.Long(c.request.Facts.Risk) }},
	{"sandbox", environment, func(c *call) types.Value { return c.set.sandboxRecord(&c.request.Facts) }},
	{"egress", bound, func(c *call) types.Value { return c.set.egressRecord(&c.request.Facts) }},
	{"exec", bound, execValue},
	{"session", fresh, func(c *call) types.Value { return sessionRecord(c.request.SessionFacts) }},
	{"workspace_mode", bound, func(c *call) types.Value { return types.String(c.request.Facts.WorkspaceMode) }},
	{"changes", bound, func(c *call) types.Value { return changesRecord(c.request.Commit) }},
	{"exit_code", bound, func(c *call) types.Value { return types.Long(c.request.Commit.ExitCode) }},
	{"path_folded", bound, func(c *call) types.Value { return foldedPath(&c.request.Facts) }},
	{"hard_links", bound, func(c *call) types.Value { return types.Long(c.request.Facts.HardLinks) }},
}

// fact returns the value of one fact of the call, nil for none.
func (c *call) fact(a attributes) types.Value { return contextFacts[a.index()].value(c) }

func portValue(c *call) types.Value {
	if c.request.Facts.Port == 0 {
		return nil
	}
	return types.Long(c.request.Facts.Port)
}

func execValue(c *call) types.Value {
	f := c.request.Facts.Exec
	if f == nil {
		return nil
	}
	return c.set.memo.get(execKey(*f), func() types.Record { return execRecord(*f) })
}
