package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/access"
	"palyra/internal/egress"
	"palyra/internal/tool"
	"palyra/internal/workspace"
)

// spotSort is the Cedar type of a place, as far as values are found for it.
type spotSort int

const (
	sortBool spotSort = iota
	sortLong
	sortString
	sortSet
	sortEntity
	sortTime
	sortRecord // only absent or not
)

// spot is one place of a call's context that a change can set.
type spot struct {
	chain []string
	sort  spotSort
	// optional is true when the place can be without a value.
	optional bool
	// low and high bound a Long.
	low, high types.Long
	// entity is the type of an entity.
	entity types.EntityType
	// usual are values that such a place has in practice, the plainest first.
	usual []string
	// file is, of context.path and context.path_folded, the number of the file, from 1; 0 for the one.
	file int
	// set writes the value into a request, nil for none, and reports whether
	// that can be. It copies what it writes to.
	set func(*Request, types.Value) bool
}

func (p *spot) path() string { return strings.Join(p.chain, ".") }

// flag, number, text, texts and thing make spots of the facts.
func flag(set func(*Request, bool)) spot {
	return spot{sort: sortBool, set: func(r *Request, v types.Value) bool {
		b, ok := v.(types.Boolean)
		if ok {
			set(r, bool(b))
		}
		return ok
	}}
}

func number(low, high types.Long, set func(*Request, int64)) spot {
	return spot{sort: sortLong, low: low, high: high, set: func(r *Request, v types.Value) bool {
		n, ok := v.(types.Long)
		if ok = ok && n >= low && n <= high; ok {
			set(r, int64(n))
		}
		return ok
	}}
}

// text takes usual values; optional says that the empty text is none.
func text(optional bool, set func(*Request, string), usual ...string) spot {
	return spot{sort: sortString, optional: optional, usual: usual, set: func(r *Request, v types.Value) bool {
		t, ok := v.(types.String)
		if v == nil && optional {
			t, ok = "", true
		} else if ok && optional {
			ok = t != ""
		}
		if ok {
			set(r, string(t))
		}
		return ok
	}}
}

func texts(set func(*Request, []string), usual ...string) spot {
	return spot{sort: sortSet, usual: usual, set: func(r *Request, v types.Value) bool {
		list, ok := stringsOf(v)
		if ok {
			set(r, list)
		}
		return ok
	}}
}

func thing(t types.EntityType, set func(*Request, string)) spot {
	return spot{sort: sortEntity, entity: t, optional: true, set: func(r *Request, v types.Value) bool {
		uid, ok := v.(types.EntityUID)
		if ok = v == nil || ok && uid.Type == t && uid.ID != ""; ok {
			set(r, string(uid.ID))
		}
		return ok
	}}
}

// stringsOf returns the elements of a set of strings, sorted.
func stringsOf(v types.Value) ([]string, bool) {
	set, ok := v.(types.Set)
	if !ok {
		return nil, false
	}
	list := make([]string, 0, set.Len())
	for e := range set.All() {
		t, ok := e.(types.String)
		if !ok {
			return nil, false
		}
		list = append(list, string(t))
	}
	slices.Sort(list)
	return list, true
}

const manyBytes = 1 << 50

// factSpots are the places of the context that come from facts, by path.
var factSpots = map[string]spot{
	"device_id":  text(false, func(r *Request, v string) { r.Caller.DeviceID = v }),
	"session_id": text(false, func(r *Request, v string) { r.Session = v }),
	"run_id":     text(false, func(r *Request, v string) { r.Run = v }),
	"skill_id":   text(false, func(r *Request, v string) { r.SkillID = v }),
	"surface":    text(false, func(r *Request, v string) { r.Caller.Surface = access.Surface(v) }, surfaceNames()...),
	"paired":     flag(func(r *Request, v bool) { r.Caller.Paired = v }),
	"present":    flag(func(r *Request, v bool) { r.Caller.Present = v }),
	"channel":    thing(typeChannel, func(r *Request, v string) { r.Channel = v }),
	"skill":      thing(typeSkill, func(r *Request, v string) { r.SkillID = v }),
	"workspace":  thing(typeWorkspace, func(r *Request, v string) { r.Facts.Workspace = v }),
	"capabilities": texts(func(r *Request, v []string) {
		r.Capabilities = nil
		for _, c := range v {
			r.Capabilities = append(r.Capabilities, tool.Capability(c))
		}
	}, capabilityNames()...),
	"hard_links": number(0, 1<<16, func(r *Request, v int64) { r.Facts.HardLinks = int(v) }),
	"protected":  flag(func(r *Request, v bool) { r.Facts.Protected = v }),
	"host":       text(true, setHost, "www", "example.com", "example.org"),
	"domain":     text(true, setDomain, "example.com", "example.org"),
	"port":       port(),
	"method":     text(true, func(r *Request, v string) { r.Facts.Method = v }, "GET", "HEAD", "POST", "PUT", "DELETE"),
	"risk":       number(0, 100, func(r *Request, v int64) { r.Facts.Risk = int(v) }),
	"exec": {sort: sortRecord, optional: true, set: func(r *Request, v types.Value) bool {
		r.Facts.Exec = nil
		return v == nil
	}},
	"exec.basename":        program(func(f *tool.ExecFacts, v string) { f.Basename = v }, "ls", "true"),
	"exec.path":            program(func(f *tool.ExecFacts, v string) { f.Path = v }, "/usr/bin/ls", "/usr/bin/true"),
	"exec.sha256":          program(func(f *tool.ExecFacts, v string) { f.SHA256 = v }, strings.Repeat("0", 64)),
	"exec.is_interpreter":  flag(func(r *Request, v bool) { execOf(r).IsInterpreter = v }),
	"exec.inline_code":     flag(func(r *Request, v bool) { execOf(r).InlineCode = v }),
	"sandbox.tier":         text(false, func(r *Request, v string) { r.Facts.SandboxTier = v }, "c", "b", "builtin"),
	"exec.in_workspace":    flag(func(r *Request, v bool) { execOf(r).InWorkspace = v }),
	"exec.shebang":         program(func(f *tool.ExecFacts, v string) { f.Shebang = v }, "", "/bin/sh"),
	"sandbox.level":        text(false, func(r *Request, v string) { r.Facts.SandboxLevel = v }, "strict", "none"),
	"sandbox.rung":         text(false, func(r *Request, v string) { r.Facts.SandboxRung = v }, "full", "user_namespaces", "landlock"),
	"sandbox.layers":       texts(func(r *Request, v []string) { r.Facts.SandboxLayers = v }, "landlock", "seccomp", "network_namespace"),
	"sandbox.limits":       text(false, func(r *Request, v string) { r.Facts.SandboxLimits = v }, "cgroup_v2", "cgroup_v1", "rlimit"),
	"sandbox.landlock_abi": number(0, 64, func(r *Request, v int64) { r.Facts.LandlockABI = int(v) }),
	"workspace_mode":       text(false, func(r *Request, v string) { r.Facts.WorkspaceMode = v }, "copy_on_write", "read_only", "direct", ""),
	"changes.root":         changes(text(false, func(r *Request, v string) { r.Commit.Root = v }, "sha256:"+strings.Repeat("0", 64))),
	"changes.added":        changes(number(0, manyBytes, func(r *Request, v int64) { r.Commit.Added = int(v) })),
	"changes.modified":     changes(number(0, manyBytes, func(r *Request, v int64) { r.Commit.Modified = int(v) })),
	"changes.deleted":      changes(number(0, manyBytes, func(r *Request, v int64) { r.Commit.Deleted = int(v) })),
	"changes.bytes":        changes(number(0, manyBytes, func(r *Request, v int64) { r.Commit.Bytes = v })),
	"changes.protected":    changes(texts(func(r *Request, v []string) { r.Commit.Protected = v }, ".git/hooks/pre-commit")),
	"changes.classes":      changes(texts(func(r *Request, v []string) { r.Commit.Classes = v }, "git", "agent")),
	"exit_code":            changes(number(-1, 255, func(r *Request, v int64) { r.Commit.ExitCode = int(v) })),
	"egress.mode":          text(false, func(r *Request, v string) { r.Facts.EgressMode = v }, "strict", "preflight", "none"),
	"egress.hosts":         texts(func(r *Request, v []string) { r.Facts.EgressHosts = v }, "example.com"),
	"egress.secrets":       texts(func(r *Request, v []string) { r.Facts.Secrets = v }, "secret"),
	"session.calls_in_run": number(0, manyBytes, func(r *Request, v int64) { r.SessionFacts.CallsInRun = int(v) }),
	"session.in_flight":    number(0, manyBytes, func(r *Request, v int64) { r.SessionFacts.InFlight = int(v) }),
	"session.bytes_out":    number(0, manyBytes, func(r *Request, v int64) { r.SessionFacts.BytesOut = v }),
	"session.tainted":      flag(func(r *Request, v bool) { r.SessionFacts.Tainted = v }),
	"session.tools_used":   texts(func(r *Request, v []string) { r.SessionFacts.ToolsUsed = v }, "fs.read"),
	"session.secrets_read": texts(func(r *Request, v []string) { r.SessionFacts.SecretsRead = v }, "secret"),
	"now": {sort: sortTime, set: func(r *Request, v types.Value) bool {
		t, ok := v.(types.Datetime)
		if ok {
			r.Time = t.Time()
		}
		return ok
	}},
}

// changes is a spot of a change set. It copies what it writes to.
func changes(p spot) spot {
	set := p.set
	p.set = func(r *Request, v types.Value) bool {
		if r.Commit == nil {
			return false
		}
		facts := *r.Commit
		r.Commit = &facts
		return set(r, v)
	}
	return p
}

// port is optional: 0 is none.
func port() spot {
	p := number(1, 65535, func(r *Request, v int64) { r.Facts.Port = int(v) })
	p.optional = true
	some := p.set
	p.set = func(r *Request, v types.Value) bool {
		if v != nil {
			return some(r, v)
		}
		r.Facts.Port = 0
		return true
	}
	return p
}

// program sets a fact of the program that a call starts.
func program(set func(*tool.ExecFacts, string), usual ...string) spot {
	return text(false, func(r *Request, v string) { set(execOf(r), v) }, usual...)
}

// execOf returns a copy of the request's program to write to.
func execOf(r *Request) *tool.ExecFacts {
	f := tool.ExecFacts{}
	if r.Facts.Exec != nil {
		f = *r.Facts.Exec
	}
	r.Facts.Exec = &f
	return &f
}

// setHost sets a host with the domain that it has.
func setHost(r *Request, v string) {
	r.Facts.Host, r.Facts.Domain = v, ""
	if h, err := egress.CanonicalHost(v); err == nil {
		r.Facts.Domain = h.Domain()
	}
}

// setDomain sets a domain with the host of that name.
func setDomain(r *Request, v string) { r.Facts.Host, r.Facts.Domain = v, v }

func surfaceNames() []string {
	names := make([]string, len(surfaces))
	for i, surface := range surfaces {
		names[i] = string(surface)
	}
	return names
}

func capabilityNames() []string {
	names := make([]string, len(tool.Capabilities))
	for i, c := range tool.Capabilities {
		names[i] = string(c)
	}
	return names
}

// spotOf returns the place of the context that a chain reads; false for one
// that no call can change.
func (s solver) spotOf(chain []string) (spot, bool) {
	if len(chain) < 2 || chain[0] != "context" {
		return spot{}, false
	}
	if chain[1] == "args" {
		return s.argument(chain)
	}
	if chain[1] == "args_rest" {
		return s.argumentsRest(chain), true
	}
	if len(chain) == 2 && (chain[1] == "path" || chain[1] == "path_folded") {
		return s.file(chain), true
	}
	p, ok := factSpots[strings.Join(chain[1:], ".")]
	p.chain = chain
	return p, ok
}

// file is context.path or context.path_folded: of a call that changes files,
// the one in the way.
func (s solver) file(chain []string) spot {
	i := s.trial.stands.file
	alone := i >= len(s.trial.request.Facts.Paths)
	p := text(alone, func(r *Request, v string) {
		if alone {
			setPath(&r.Facts, v)
			return
		}
		r.Facts.Paths = slices.Clone(r.Facts.Paths)
		r.Facts.Paths[i] = v
	}, "file.txt", "other.txt")
	p.chain = chain
	if !alone {
		p.file = i + 1
	}
	if chain[1] == "path_folded" {
		p.set = onlyFolded(p.set)
	}
	return p
}

// onlyFolded refuses what no path is folded to.
func onlyFolded(set func(*Request, types.Value) bool) func(*Request, types.Value) bool {
	return func(r *Request, v types.Value) bool {
		t, _ := v.(types.String)
		return workspace.FoldCase(string(t)) == string(t) && set(r, v)
	}
}

// set is the change that sets a place to a value.
func (s solver) set(p spot, v types.Value) change {
	path := p.path()
	was := s.was(p)
	becomes := s.masked(p, v)
	c := change{
		key: path, effort: effortOfPlace(p.chain),
		step:  FlipStep{Kind: StepContext, Path: path, Was: was, Becomes: becomes},
		patch: func(env *evalEnv) { patchPlace(env, p.chain[1:], v) },
		edit: func(to *Scenario) error {
			if !p.set(&to.Request, v) {
				return fmt.Errorf("%s cannot be %s", path, becomes)
			}
			return nil
		},
	}
	if p.file > 0 {
		c.key = fmt.Sprintf("%s #%d", path, p.file)
	}
	switch {
	case v == nil:
		c.say = fmt.Sprintf("call without %s (it is %s)", path, was)
		if p.chain[1] != "args" {
			c.effort = effortOrigin // what the gateway finds out about every such call
		}
	case was == ValueAbsent:
		c.say = fmt.Sprintf("call with %s %s (it is absent)", path, becomes)
	case p.sort == sortTime:
		c.say = fmt.Sprintf("call at %s (it is %s)", becomes, was)
	default:
		c.say = fmt.Sprintf("change %s from %s to %s", path, was, becomes)
	}
	return c
}

// patchPlace sets a place of the context, and what follows from it.
func patchPlace(env *evalEnv, chain []string, v types.Value) {
	context, _ := env.Context.(types.Record)
	context = withValue(context, chain, v)
	if len(chain) == 1 {
		context = withFollowers(context, chain[0], v)
	}
	env.Context = context
}

// withFollowers returns a context in which a place was set with what follows
// from it: a domain from a host, a spelling from a path, and the reverse.
func withFollowers(context types.Record, name string, v types.Value) types.Record {
	fields := context.Map()
	text, _ := v.(types.String)
	switch name {
	case "host", "domain":
		var r Request
		factSpots[name].set(&r, text)
		putString(fields, "host", r.Facts.Host)
		putString(fields, "domain", r.Facts.Domain)
	case "path", "path_folded":
		var f tool.Facts
		setPath(&f, string(text))
		putString(fields, "path", f.Path)
		putString(fields, "path_folded", f.PathFolded)
	}
	return types.NewRecord(fields)
}

// putString sets a field, or takes it away for the empty text.
func putString(m types.RecordMap, name types.String, value string) {
	delete(m, name)
	if value != "" {
		m[name] = types.String(value)
	}
}

// withValue returns a record with another value at a place, nil for none.
func withValue(in types.Record, chain []string, v types.Value) types.Record {
	fields := in.Map()
	if fields == nil {
		fields = types.RecordMap{}
	}
	name := types.String(chain[0])
	switch {
	case len(chain) > 1:
		inner, ok := fields[name].(types.Record)
		if !ok && name == "exec" {
			inner = execRecord(tool.ExecFacts{})
		}
		fields[name] = withValue(inner, chain[1:], v)
	case v == nil:
		delete(fields, name)
	default:
		fields[name] = v
	}
	return types.NewRecord(fields)
}
