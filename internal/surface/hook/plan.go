package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/shellfacts"
	"palyra/internal/exec/program/shellwords"
	"palyra/internal/exec/workspace"
)

// risks has the risk of a call by its act, 0 to 100 (docs/tools.md).
var risks = map[tool.Act]int{
	tool.ActRead: 5, tool.ActWrite: 30, tool.ActShell: 60, tool.ActInput: 65, tool.ActFetch: 40, tool.ActAgent: 10, tool.ActSkill: 60,
	tool.ActMCP: 50, tool.ActTalk: 0, tool.ActUnknown: 60,
}

// Additional risk for paths that are outside of the declared workspaces, protected or guarded, and
// for an agent that does not ask its own user.
const riskOutside, riskProtected, riskGuarded, riskBypass = 20, 20, 40, 10

// bypassing are the modes in which agents do not ask their own user.
var bypassing = []string{"bypassPermissions", "dontAsk", "auto"}

// planned is a plan under construction.
type planned struct {
	*Tools
	agent *Agent
	row   row
	msg   *Message
	args  map[string]any
	plan  tool.Plan
	// at are the locations of the call, in the order in which it names them.
	at []place
}

// planOf plans a call from the agent's description of it.
func (t *Tools) planOf(ctx context.Context, a *Agent, r row, m *Message, input json.RawMessage) (tool.Plan, error) {
	p := &planned{Tools: t, agent: a, row: r, msg: m}
	if err := json.Unmarshal(input, &p.args); err != nil {
		return tool.Plan{}, reason.Errorf(reason.InvalidInput, "reading the arguments: %w", err)
	}
	p.plan.Facts = tool.Facts{
		Risk:     risks[r.act],
		External: &tool.ExternalFacts{Agent: a.Name, Act: r.act, PermissionMode: m.PermissionMode},
	}
	p.plan.Facts.BoundByNothing()
	if slices.Contains(bypassing, m.PermissionMode) && r.act != tool.ActTalk {
		p.risk(riskBypass)
		p.note("The agent is in the mode %q: it does not ask its own user.", m.PermissionMode)
	}
	p.findPaths()
	p.readLine()
	p.findHost()
	p.findServer()
	p.bind()
	p.describe(ctx)
	return p.plan, nil
}

func (p *planned) risk(more int) { p.plan.Facts.Risk = min(100, p.plan.Facts.Risk+more) }

func (p *planned) note(format string, args ...any) {
	p.plan.Preview.Notes = append(p.plan.Preview.Notes, fmt.Sprintf(format, args...))
}

func (p *planned) text(name string) string {
	s, _ := p.args[name].(string)
	return s
}

// line returns the input of a shell or a running program.
func (p *planned) line() string {
	if p.row.line != "" {
		return p.text(p.row.line)
	}
	return p.text("command")
}

// named returns the paths that the call names, as written.
func (p *planned) named() []string {
	if p.row.act == tool.ActWrite && p.row.line != "" {
		return patched(p.line())
	}
	var list []string
	for _, name := range p.row.paths {
		if s := p.text(name); s != "" {
			list = append(list, s)
		}
	}
	if len(list) == 0 && p.row.act == tool.ActRead && len(p.row.paths) > 0 {
		list = append(list, ".") // a search without a path is in the working directory
	}
	return list
}

// patchMarks are the prefixes of lines in a Codex patch that name a file.
var patchMarks = []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "}

// patched returns the files that a patch names.
func patched(patch string) []string {
	var list []string
	for line := range strings.Lines(patch) {
		for _, mark := range patchMarks {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), mark); ok {
				list = append(list, strings.TrimSpace(name))
			}
		}
	}
	return list
}

// findPaths converts the paths of a call to facts: the paths in the first workspace are the
// paths of the call, and all others are outside.
func (p *planned) findPaths() {
	external := p.plan.Facts.External
	for _, name := range p.named() {
		at := p.locate(name, p.msg.Cwd)
		p.at = append(p.at, at)
		if writing(p.row.act) && (p.covers(at.abs) || p.covers(name)) {
			external.Guarded = append(external.Guarded, at.abs)
		}
		if f := &p.plan.Facts; at.workspace == "" || f.Workspace != "" && f.Workspace != at.workspace {
			external.Outside = append(external.Outside, at.abs)
		} else {
			f.Workspace = at.workspace
			f.Paths = append(f.Paths, at.rel)
		}
	}
	if p.row.act == tool.ActShell || p.row.act == tool.ActInput || p.row.act == tool.ActUnknown {
		external.Guarded = append(external.Guarded, p.guardedInText()...)
	}
	external.Outside, external.Guarded = sorted(external.Outside), sorted(external.Guarded)
	p.pathFacts()
	if len(external.Outside) > 0 {
		p.risk(riskOutside)
		p.note("Outside of the declared workspaces: %s.", few(external.Outside))
	}
	if len(external.Guarded) > 0 {
		p.risk(riskGuarded)
		p.note("Controls what agents or the gateway run: %s.", few(external.Guarded))
	}
}

// guardedInText returns the guarded files that the text of the call may write to. Only input that
// starts a new shell can be parsed as shell syntax.
func (p *planned) guardedInText() []string {
	switch {
	case p.row.wrap:
		raw, _ := json.Marshal(p.args["input"])
		return p.guardedAmong(string(raw), p.msg.Cwd)
	case p.row.act == tool.ActShell:
		return p.guardedIn(p.line(), p.msg.Cwd)
	}
	return p.guardedAmong(p.line(), p.msg.Cwd)
}

// pathFacts sets the same facts for the workspace paths as the gateway's own tools.
func (p *planned) pathFacts() {
	f := &p.plan.Facts
	f.Paths = sorted(f.Paths)
	if len(f.Paths) == 0 {
		return
	}
	f.Path = shared(f.Paths)
	f.PathFolded = text.FoldCase(f.Path)
	protects := workspace.Protected
	if writing(p.row.act) {
		protects = workspace.ProtectedForWriting
	}
	if f.Protected = slices.ContainsFunc(f.Paths, protects); f.Protected {
		p.risk(riskProtected)
	}
	if len(f.Paths) > 1 {
		return
	}
	f.Paths = nil
	if slices.ContainsFunc(p.at, func(at place) bool { return at.linked }) {
		return // the workspace contains another file at this path
	}
	root, err := p.workspaces.Open(f.Workspace)
	if err != nil {
		return
	}
	defer root.Close()
	if info, err := root.Stat(f.Path); err == nil && info.Kind == workspace.File {
		f.HardLinks = int(min(info.Links, 1<<30))
	}
}

// shared returns the common directory of paths, or the only path.
func shared(paths []string) string {
	dir := paths[0]
	for _, one := range paths[1:] {
		for dir != "." && one != dir && !strings.HasPrefix(one, dir+"/") {
			dir = path.Dir(dir)
		}
	}
	return dir
}

func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// few lists the first items and the number of the others.
func few(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// findHost sets the destination of a call. An address that cannot be parsed has no host, so that no
// rule for hosts allows it.
func (p *planned) findHost() {
	for _, name := range p.row.urls {
		u, err := url.Parse(p.text(name))
		if err != nil {
			continue
		}
		host, err := egress.CanonicalHost(u.Hostname())
		if err != nil {
			continue
		}
		port := map[string]int{"https": 443, "http": 80}[u.Scheme]
		if n, err := strconv.Atoi(u.Port()); err == nil {
			port = n
		}
		f := &p.plan.Facts
		f.Host, f.Domain, f.Port, f.Method = host.String(), host.Domain(), port, "GET"
	}
}

// readLine parses the input of a shell, or of a program that may be one. The line and its
// language are not verified, so they MUST NOT loosen a decision.
func (p *planned) readLine() {
	if (p.row.act == tool.ActShell || p.row.act == tool.ActInput) && p.line() != "" {
		p.plan.Facts.Shell = shellfacts.Claim(shellwords.Bash, p.line())
	}
}

func (p *planned) findServer() {
	if p.row.act == tool.ActMCP {
		p.plan.Facts.External.Server = p.text("server")
	}
}

// bind sets the binding of an approval in addition to the arguments.
func (p *planned) bind() {
	p.plan.Binding = tool.Binding{Cwd: p.msg.Cwd, SandboxProfile: "none: " + p.agent.Name + " runs it"}
	f := &p.plan.Facts
	name := p.agent.Name + "/" + p.row.name
	switch p.row.act {
	case tool.ActRead, tool.ActWrite:
		p.plan.Subject = fmt.Sprintf("%s@%s", name, f.Workspace)
		p.plan.SubjectCovers = fmt.Sprintf("any %s by %s of files in workspace %s that are not protected", p.row.name, p.agent.Name, f.Workspace)
		switch {
		case len(f.External.Guarded) > 0:
			p.plan.ExactOnly = "the file controls what agents or the gateway run"
		case f.Protected:
			p.plan.ExactOnly = "the file is protected"
		case len(f.External.Outside) > 0 || f.Workspace == "":
			p.plan.ExactOnly = "the file is not in a declared workspace"
		}
	case tool.ActFetch:
		p.plan.Subject = fmt.Sprintf("%s@%s:%d", name, f.Host, f.Port)
		p.plan.SubjectCovers = fmt.Sprintf("any %s by %s from %s", p.row.name, p.agent.Name, f.Host)
		if f.Host == "" {
			p.plan.ExactOnly = "the destination is not known"
		}
	case tool.ActMCP:
		of := p.text("tool")
		p.plan.Subject = fmt.Sprintf("%s@%q/%q", name, f.External.Server, of)
		p.plan.SubjectCovers = fmt.Sprintf("any call by %s of the tool %s of any MCP server named %s", p.agent.Name, of, f.External.Server)
		p.plan.ExactOnly = "any project can give a server that name"
	case tool.ActShell:
		// The subject covers the exact line in the exact directory. Description and timeout can
		// differ between identical calls.
		p.plan.Subject = fmt.Sprintf("%s@%s:%s", name, p.msg.Cwd, p.act())
		p.plan.SubjectCovers = fmt.Sprintf("this very line by %s, in %s", p.agent.Name, p.cwd())
	case tool.ActAgent, tool.ActTalk:
		p.plan.Subject, p.plan.SubjectCovers = name, fmt.Sprintf("any %s by %s", p.row.name, p.agent.Name)
	default:
		p.plan.Subject = name
		p.plan.ExactOnly = "the agent runs it itself, and the gateway cannot verify the effect of its text"
	}
}

// beside are arguments of shells that do not affect the command.
var beside = []string{"description", "timeout"}

// act returns the digest of the call's effect, without the arguments in beside.
func (p *planned) act() string {
	what := maps.Clone(p.args)
	maps.DeleteFunc(what, func(name string, _ any) bool { return slices.Contains(beside, name) })
	digest, err := canonical.DigestOf(what)
	if err != nil {
		p.plan.ExactOnly = "its effect cannot be distinguished from other calls"
	}
	return digest
}

// longestShown bounds the text of a summary, in bytes; the arguments are shown completely.
const longestShown = 400

// describe sets the summary for approvers.
func (p *planned) describe(ctx context.Context) {
	show := func(s string) string { return text.Ellipsis(s, longestShown) }
	what := "Call " + p.row.name
	switch p.row.act {
	case tool.ActRead:
		what = fmt.Sprintf("%s of %s", p.row.name, p.where())
	case tool.ActWrite:
		what = fmt.Sprintf("Change %s with %s", p.where(), p.row.name)
		p.plan.Preview.Diff = p.diff(ctx)
	case tool.ActShell:
		what = "Run in its shell: " + show(p.line())
	case tool.ActInput:
		what = "Type into a running program: " + strconv.Quote(show(p.line()))
	case tool.ActFetch:
		what = fmt.Sprintf("%s: %s", p.row.name, show(p.text("url")+p.text("query")))
	case tool.ActSkill:
		what = fmt.Sprintf("Load the skill %q, whose text may run commands while it is loaded", show(p.text("skill")+p.text("command")))
	case tool.ActMCP:
		what = fmt.Sprintf("Call %q of the MCP server named %q there", show(p.text("tool")), show(p.text("server")))
		p.note("The name of a server does not identify its program: any project can choose it.")
	case tool.ActUnknown:
		what = fmt.Sprintf("Call %q, an unknown tool", show(p.text("tool")))
	}
	p.plan.Preview.Lead = p.lead()
	p.plan.Preview.Summary = fmt.Sprintf("%s, in %s. %s runs it itself, outside of this gateway's sandbox.", what, p.cwd(), p.agent.Name)
}

// lead returns the line, file or address that identifies the call.
func (p *planned) lead() string {
	switch p.row.act {
	case tool.ActShell, tool.ActInput:
		return p.line()
	case tool.ActRead, tool.ActWrite:
		if len(p.at) > 0 {
			return p.where()
		}
		return ""
	case tool.ActFetch:
		return p.text("url") + p.text("query")
	default:
		return ""
	}
}

func (p *planned) cwd() string {
	if p.msg.Cwd == "" {
		return "an unnamed directory"
	}
	return strconv.Quote(p.msg.Cwd)
}

func (p *planned) where() string {
	names := make([]string, 0, len(p.at))
	for _, at := range p.at {
		if at.workspace == "" {
			names = append(names, strconv.Quote(at.abs))
			continue
		}
		if at.linked {
			names = append(names, fmt.Sprintf("%q in a worktree of workspace %s", at.abs, at.workspace))
			continue
		}
		names = append(names, fmt.Sprintf("%q in workspace %s", at.rel, at.workspace))
	}
	if len(names) == 0 {
		return "unnamed files"
	}
	return few(names)
}
