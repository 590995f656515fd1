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

// How risky a call is, 0 to 100 (docs/tools.md).
var risks = map[tool.Act]int{
	tool.ActRead: 5, tool.ActWrite: 30, tool.ActShell: 60, tool.ActInput: 65, tool.ActFetch: 40, tool.ActAgent: 10, tool.ActSkill: 60,
	tool.ActMCP: 50, tool.ActTalk: 0, tool.ActUnknown: 60,
}

// More for what stands outside of the declared workspaces, is protected or guarded, and
// for an agent that asks nobody else.
const riskOutside, riskProtected, riskGuarded, riskBypass = 20, 20, 40, 10

// bypassing are the modes in which agents ask their own user nothing.
var bypassing = []string{"bypassPermissions", "dontAsk", "auto"}

// planned is a plan in the making.
type planned struct {
	*Tools
	agent *Agent
	row   row
	msg   *Message
	args  map[string]any
	plan  tool.Plan
	// at are the places of the call, in the order in which it names them.
	at []place
}

// plan works out what a call would do, as far as the agent says it.
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
		p.note("The agent is in the mode %q: it asks nobody but this gateway.", m.PermissionMode)
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

// line is what a shell, or a program that runs, is given.
func (p *planned) line() string {
	if p.row.line != "" {
		return p.text(p.row.line)
	}
	return p.text("command")
}

// named are the paths that the call names, as they are written.
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
		list = append(list, ".") // a search without a place is one of the working directory
	}
	return list
}

// patchMarks begin the lines of a patch of Codex that name a file.
var patchMarks = []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "}

// patched are the files that a patch names.
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

// findPaths turns the paths of a call into facts: those of one workspace are the
// call's, all others are outside.
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
		p.note("In no declared workspace: %s.", few(external.Outside))
	}
	if len(external.Guarded) > 0 {
		p.risk(riskGuarded)
		p.note("Says what agents or the gateway run: %s.", few(external.Guarded))
	}
}

// guardedInText are the guarded files that the text of the call may write to. Only what is for
// a shell that starts with it can be read as its language.
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

// pathFacts says of the paths in the workspace what those of the gateway's own tools
// say.
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
		return // the workspace has another file there
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

// shared is the directory that paths are in, or the one path.
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

// few names some of many.
func few(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// findHost says where a call goes. An address that cannot be read has no host: no rule
// about hosts lets it pass.
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

// readLine reads what a shell, or a program that may be one, is given. That it is this
// line, in this language, is the agent's word: nothing that loosens may rest on it.
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

// bind fills what an approval binds to beside the arguments.
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
			p.plan.ExactOnly = "the file says what agents or the gateway run"
		case f.Protected:
			p.plan.ExactOnly = "the file is protected"
		case len(f.External.Outside) > 0 || f.Workspace == "":
			p.plan.ExactOnly = "the file is in no declared workspace"
		}
	case tool.ActFetch:
		p.plan.Subject = fmt.Sprintf("%s@%s:%d", name, f.Host, f.Port)
		p.plan.SubjectCovers = fmt.Sprintf("any %s by %s from %s", p.row.name, p.agent.Name, f.Host)
		if f.Host == "" {
			p.plan.ExactOnly = "where it goes is not known"
		}
	case tool.ActMCP:
		of := p.text("tool")
		p.plan.Subject = fmt.Sprintf("%s@%q/%q", name, f.External.Server, of)
		p.plan.SubjectCovers = fmt.Sprintf("any call by %s of the tool %s of whatever MCP server is called %s", p.agent.Name, of, f.External.Server)
		p.plan.ExactOnly = "any project can give a server that name"
	case tool.ActShell:
		// The very line, from the very directory: what it is said to be for, and how long
		// it may take, is another each time.
		p.plan.Subject = fmt.Sprintf("%s@%s:%s", name, p.msg.Cwd, p.act())
		p.plan.SubjectCovers = fmt.Sprintf("this very line by %s, in %s", p.agent.Name, p.cwd())
	case tool.ActAgent, tool.ActTalk:
		p.plan.Subject, p.plan.SubjectCovers = name, fmt.Sprintf("any %s by %s", p.row.name, p.agent.Name)
	default:
		p.plan.Subject = name
		p.plan.ExactOnly = "the agent runs it itself, and what its text comes to there is the agent's word"
	}
}

// beside are arguments of shells that say nothing of what is run.
var beside = []string{"description", "timeout"}

// act is the digest of what the call does, without what is beside that.
func (p *planned) act() string {
	what := maps.Clone(p.args)
	maps.DeleteFunc(what, func(name string, _ any) bool { return slices.Contains(beside, name) })
	digest, err := canonical.DigestOf(what)
	if err != nil {
		p.plan.ExactOnly = "what it does cannot be told from other calls"
	}
	return digest
}

// longestShown bounds the text of a summary, in bytes; the arguments are shown whole.
const longestShown = 400

// describe says to people what the call would do.
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
		what = "Have its shell run: " + show(p.line())
	case tool.ActInput:
		what = "Type into a program that runs already: " + strconv.Quote(show(p.line()))
	case tool.ActFetch:
		what = fmt.Sprintf("%s: %s", p.row.name, show(p.text("url")+p.text("query")))
	case tool.ActSkill:
		what = fmt.Sprintf("Load the skill %q, whose text may run commands while it is loaded", show(p.text("skill")+p.text("command")))
	case tool.ActMCP:
		what = fmt.Sprintf("Call %q of the MCP server that is called %q there", show(p.text("tool")), show(p.text("server")))
		p.note("The name of a server says nothing of which program it is: any project can choose it.")
	case tool.ActUnknown:
		what = fmt.Sprintf("Call %q, a tool that this gateway does not know", show(p.text("tool")))
	}
	p.plan.Preview.Lead = p.lead()
	p.plan.Preview.Summary = fmt.Sprintf("%s, in %s. %s runs it itself, in no sandbox of this gateway.", what, p.cwd(), p.agent.Name)
}

// lead is the line, the file or the address that the call is known by.
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
		return "a directory that it does not name"
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
		return "files that it does not name"
	}
	return few(names)
}
