package policy

import (
	"fmt"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/access"
	"palyra/internal/reason"
	"palyra/internal/tool"
)

// refusal is why a request cannot be evaluated at all; it denies.
type refusal struct {
	code    reason.Code
	message string
}

// prepare turns a request into Cedar's terms.
func (s *Set) prepare(r Request) (*call, *refusal) {
	args, known := s.vocab.args[r.Tool]
	if !known || r.Tool == unknownTool {
		return nil, &refusal{reason.UnknownTool, fmt.Sprintf("no pinned tool is named %q", clipText(r.Tool))}
	}
	return s.prepareKnown(r, args)
}

func (s *Set) prepareKnown(r Request, args *argType) (*call, *refusal) {
	c := &call{set: s, entities: &overlay{base: s.dir.entities}, requester: s.dir.requester(r.Caller)}
	principal, extra, ok := s.dir.principal(r.Caller.Principal)
	if !ok {
		return nil, &refusal{reason.PolicyError, fmt.Sprintf("the caller %q is no principal", r.Caller.Principal)}
	}
	if extra != nil {
		c.entities.extra = append(c.entities.extra, *extra)
	}
	values, rest, err := argumentValues(args, r.Args)
	if err != nil {
		return nil, &refusal{reason.PolicyError, err.Error()}
	}
	c.context = s.callContext(r)
	c.context["args"] = values
	c.context["args_rest"] = rest
	c.req = cedar.Request{
		Principal: principal,
		Action:    types.NewEntityUID(typeAction, types.String(toolPrefix+r.Tool)),
		Resource:  types.NewEntityUID(typeTool, types.String(r.Tool)),
	}
	c.found = s.candidates(c.req)
	return c, nil
}

// candidates are the policies that the index finds for a request.
func (s *Set) candidates(req cedar.Request) candidates {
	return s.index.find(
		s.dir.keysOf(req.Action), s.dir.keysOf(req.Resource), s.dir.keysOf(req.Principal),
	)
}

// callContext is the context of vocabulary.cedarschema's CallContext, without
// arguments and approval.
func (s *Set) callContext(r Request) types.RecordMap {
	m := make(types.RecordMap, 28) // all attributes; one more would double the map
	m["device_id"] = types.String(r.Caller.DeviceID)
	m["session_id"] = types.String(r.Session)
	m["run_id"] = types.String(r.Run)
	m["tool_name"] = types.String(r.Tool)
	m["skill_id"] = types.String(r.SkillID)
	m["surface"] = types.String(r.Caller.Surface)
	m["paired"] = types.Boolean(r.Caller.Paired)
	m["present"] = types.Boolean(r.Caller.Present)
	m["capabilities"] = capabilitySet(r.Capabilities)
	m["now"] = types.NewDatetime(r.Time)
	if r.Channel != "" {
		m["channel"] = types.NewEntityUID(typeChannel, types.String(r.Channel))
	}
	if r.SkillID != "" {
		m["skill"] = types.NewEntityUID(typeSkill, types.String(r.SkillID))
	}
	s.addFacts(m, r.Facts)
	m["session"] = s.sessionRecord(r.SessionFacts)
	return m
}

func (s *Set) addFacts(m types.RecordMap, f tool.Facts) {
	if f.Workspace != "" {
		m["workspace"] = types.NewEntityUID(typeWorkspace, types.String(f.Workspace))
	}
	addString(m, "path", f.Path)
	addString(m, "host", f.Host)
	addString(m, "domain", f.Domain)
	addString(m, "method", f.Method)
	if f.Port != 0 {
		m["port"] = types.Long(f.Port)
	}
	m["protected"] = types.Boolean(f.Protected)
	m["risk"] = types.Long(f.Risk)
	m["sandbox"] = s.memo.get(sandboxKey{f.SandboxTier, f.SandboxLevel}, func() types.Record {
		return types.NewRecord(types.RecordMap{
			"tier": types.String(f.SandboxTier), "level": types.String(f.SandboxLevel),
		})
	})
	m["egress"] = s.egressRecord(f)
	if f.Exec != nil {
		m["exec"] = s.memo.get(execKey(*f.Exec), func() types.Record { return execRecord(*f.Exec) })
	}
}

func execRecord(f tool.ExecFacts) types.Record {
	return types.NewRecord(types.RecordMap{
		"basename":       types.String(f.Basename),
		"path":           types.String(f.Path),
		"sha256":         types.String(f.SHA256),
		"is_interpreter": types.Boolean(f.IsInterpreter),
		"inline_code":    types.Boolean(f.InlineCode),
	})
}

func addString(m types.RecordMap, name types.String, value string) {
	if value != "" {
		m[name] = types.String(value)
	}
}

func (s *Set) egressRecord(f tool.Facts) types.Record {
	record := func() types.Record {
		return types.NewRecord(types.RecordMap{
			"mode": types.String(f.EgressMode), "hosts": stringSet(f.EgressHosts),
		})
	}
	if len(f.EgressHosts) > 0 {
		return record()
	}
	return s.memo.get(egressKey(f.EgressMode), record)
}

func (s *Set) sessionRecord(f tool.SessionFacts) types.Record {
	return types.NewRecord(types.RecordMap{
		"calls_in_run": types.Long(f.CallsInRun),
		"in_flight":    types.Long(f.InFlight),
		"tools_used":   stringSet(f.ToolsUsed),
		"secrets_read": stringSet(f.SecretsRead),
		"tainted":      types.Boolean(f.Tainted),
		"bytes_out":    types.Long(f.BytesOut),
	})
}

// accessContext is the context of the API's own actions.
func accessContext(c access.Caller) types.Record {
	return types.NewRecord(types.RecordMap{
		"device_id": types.String(c.DeviceID),
		"surface":   types.String(c.Surface),
		"paired":    types.Boolean(c.Paired),
		"present":   types.Boolean(c.Present),
	})
}
