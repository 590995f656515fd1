package policy

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"palyra/internal/access"
	"palyra/internal/canonical"
	"palyra/internal/reason"
	"palyra/internal/tool"
	"palyra/internal/workspace"
)

// Simulate is Evaluate with votes as if they had been cast on an ask about the
// call: those that are enough turn the ask into an allow, else the verdict says
// what they lack.
func (s *Set) Simulate(r Request, a Approval, grants []Grant) Verdict {
	v, _ := s.verdictWith(r, a, grants)
	return v
}

// CallerFor is a principal as it would come in from a paired device on the
// command line, with the roles and the owner that the set knows. One that is
// no member has neither.
func (s *Set) CallerFor(p access.Principal) access.Caller {
	m := s.dir.members[p]
	return access.Caller{
		Principal: p, OnBehalfOf: s.dir.requester(access.Caller{Principal: p}), Roles: slices.Clone(m.Roles),
		Surface: access.SurfaceCLI, Paired: true,
	}
}

// VoteFor completes a described vote: without roles it has all that the user
// holds, without a surface it is of the command line. A vote of somebody who is
// no user would never count, so that it is an error.
func (s *Set) VoteFor(v Vote, at time.Time) (Vote, error) {
	m, known := s.dir.members[v.User]
	if !known || v.User.Kind != access.KindUser {
		return v, reason.Errorf(reason.InvalidInput, "a vote of %s: there is no such user", v.User).
			WithRemedy("`palyra members list` shows the members.")
	}
	if len(v.Roles) == 0 {
		v.Roles = slices.Clone(m.Roles)
	}
	for _, r := range v.Roles {
		if !m.Holds(r) {
			return v, reason.Errorf(reason.InvalidInput, "a vote of %s with role %s, which they do not hold: it would not count", v.User, r)
		}
	}
	if v.Surface == "" {
		v.Surface = access.SurfaceCLI
	}
	if !slices.Contains(surfaces, v.Surface) {
		return v, reason.Errorf(reason.InvalidInput, "a vote on %q: there is no such surface", v.Surface)
	}
	v.At = at
	return v, nil
}

// givenFacts are the facts of a request under the names that they have in the
// context of a policy.
type givenFacts struct {
	DeviceID     string            `json:"device_id"`
	RunID        string            `json:"run_id"`
	SkillID      string            `json:"skill_id"`
	Surface      access.Surface    `json:"surface"`
	Paired       bool              `json:"paired"`
	Present      bool              `json:"present"`
	Capabilities []tool.Capability `json:"capabilities"`
	Workspace    string            `json:"workspace"`
	Path         string            `json:"path"`
	// PathFolded follows from Path.
	PathFolded string `json:"path_folded"`
	HardLinks  int    `json:"hard_links"`
	// Paths is no attribute: a call that changes several files is evaluated for
	// each of them.
	Paths []string `json:"paths"`
	// WorkspaceMode is that of the sandbox.
	WorkspaceMode string          `json:"workspace_mode"`
	Protected     bool            `json:"protected"`
	Host          string          `json:"host"`
	Domain        string          `json:"domain"`
	Port          int             `json:"port"`
	Method        string          `json:"method"`
	Exec          *tool.ExecFacts `json:"exec"`
	Risk          int             `json:"risk"`
	Sandbox       struct {
		Tier   string   `json:"tier"`
		Level  string   `json:"level"`
		Rung   string   `json:"rung"`
		Layers []string `json:"layers"`
		Limits string   `json:"limits"`

		LandlockABI int `json:"landlock_abi"`
	} `json:"sandbox"`
	Egress struct {
		Mode  string   `json:"mode"`
		Hosts []string `json:"hosts"`
		// Secrets are names.
		Secrets []string `json:"secrets"`
	} `json:"egress"`
	Session tool.SessionFacts `json:"session"`
	// Changes, or the program's ExitCode, make the call a commit of its changes
	// to the workspace.
	Changes  *givenChanges `json:"changes"`
	ExitCode *int          `json:"exit_code"`
}

type givenChanges struct {
	Root      string   `json:"root"`
	Added     int      `json:"added"`
	Modified  int      `json:"modified"`
	Deleted   int      `json:"deleted"`
	Bytes     int64    `json:"bytes"`
	Protected []string `json:"protected"`
	Classes   []string `json:"classes"`
}

// ReplaceFacts puts described facts in the place of those of a request. text is
// a JSON object of context attributes, such as {"exec": {"basename": "git"}};
// what it does not name stays, and null takes an optional one away.
func ReplaceFacts(r *Request, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	given := factsOf(*r)
	if given.Exec != nil {
		program := *given.Exec // the request's own stays as it is
		given.Exec = &program
	}
	text, err := canonical.JSON(text)
	if err != nil {
		return reason.Errorf(reason.InvalidInput, "facts: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&given); err != nil {
		return reason.Errorf(reason.InvalidInput, "facts: %s", strings.TrimPrefix(err.Error(), "json: ")).
			WithRemedy("Name facts as policies do, without \"context.\": exec, host, path, session, ... (docs/policy.md).")
	}
	if given.Path != r.Facts.Path && slices.Equal(given.Paths, r.Facts.Paths) {
		given.Paths = nil // the one path takes the place of the many
	}
	if err := given.foldPath(r.Facts); err != nil {
		return err
	}
	given.put(r)
	return nil
}

// foldPath lets the folded path follow from the path, unless both stay as they
// were. A call can have no other.
func (g *givenFacts) foldPath(was tool.Facts) error {
	if g.Path == was.Path && g.PathFolded == was.PathFolded {
		return nil
	}
	folded := workspace.FoldCase(g.Path)
	if g.PathFolded != was.PathFolded && g.PathFolded != folded {
		return reason.Errorf(reason.InvalidInput, "facts: path_folded is %q for the path %q", folded, g.Path).
			WithRemedy("Give the path alone: path_folded follows from it.")
	}
	g.PathFolded = folded
	return nil
}

func factsOf(r Request) givenFacts {
	f := r.Facts
	g := givenFacts{
		DeviceID: r.Caller.DeviceID, RunID: r.Run, SkillID: r.SkillID, Surface: r.Caller.Surface, Paired: r.Caller.Paired,
		PathFolded: f.PathFolded, HardLinks: f.HardLinks,
		Present: r.Caller.Present, Capabilities: slices.Clone(r.Capabilities), Workspace: f.Workspace, Path: f.Path,
		Paths: slices.Clone(f.Paths), Protected: f.Protected, Host: f.Host, Domain: f.Domain, Port: f.Port, Method: f.Method,
		Exec: f.Exec, Risk: f.Risk, Session: r.SessionFacts, WorkspaceMode: f.WorkspaceMode,
	}
	g.Sandbox.Tier, g.Sandbox.Level, g.Sandbox.Rung, g.Sandbox.Limits = f.SandboxTier, f.SandboxLevel, f.SandboxRung, f.SandboxLimits
	g.Sandbox.Layers, g.Sandbox.LandlockABI = slices.Clone(f.SandboxLayers), f.LandlockABI
	if c := r.Commit; c != nil {
		code := c.ExitCode
		g.Workspace, g.ExitCode = c.Workspace, &code
		g.Changes = &givenChanges{
			c.Root, c.Added, c.Modified, c.Deleted, c.Bytes, slices.Clone(c.Protected), slices.Clone(c.Classes),
		}
	}
	g.Egress.Mode, g.Egress.Hosts, g.Egress.Secrets = f.EgressMode, slices.Clone(f.EgressHosts), slices.Clone(f.Secrets)
	g.Session.ToolsUsed, g.Session.SecretsRead = slices.Clone(g.Session.ToolsUsed), slices.Clone(g.Session.SecretsRead)
	return g
}

func (g givenFacts) put(r *Request) {
	r.Caller.DeviceID, r.Run, r.SkillID = g.DeviceID, g.RunID, g.SkillID
	r.Caller.Surface, r.Caller.Paired, r.Caller.Present = g.Surface, g.Paired, g.Present
	r.Capabilities, r.SessionFacts = g.Capabilities, g.Session
	r.Facts = tool.Facts{
		Workspace: g.Workspace, Path: g.Path, PathFolded: g.PathFolded, HardLinks: g.HardLinks, Paths: g.Paths, Protected: g.Protected, Host: g.Host, Domain: g.Domain,
		Port: g.Port, Method: g.Method, Exec: g.Exec, Risk: g.Risk, SandboxTier: g.Sandbox.Tier, SandboxLevel: g.Sandbox.Level,
		SandboxRung: g.Sandbox.Rung, SandboxLayers: sorted(g.Sandbox.Layers), SandboxLimits: g.Sandbox.Limits, LandlockABI: g.Sandbox.LandlockABI,
		WorkspaceMode: g.WorkspaceMode, EgressMode: g.Egress.Mode, EgressHosts: g.Egress.Hosts, Secrets: sorted(g.Egress.Secrets),
	}
	r.Commit = g.commit()
}

// commit is the described change set, nil for a call.
func (g givenFacts) commit() *tool.CommitFacts {
	if g.Changes == nil && g.ExitCode == nil {
		return nil
	}
	out := &tool.CommitFacts{Workspace: g.Workspace}
	if c := g.Changes; c != nil {
		out.Root, out.Added, out.Modified, out.Deleted, out.Bytes = c.Root, c.Added, c.Modified, c.Deleted, c.Bytes
		out.Protected, out.Classes = sorted(c.Protected), sorted(c.Classes)
	}
	if g.ExitCode != nil {
		out.ExitCode = *g.ExitCode
	}
	return out
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
