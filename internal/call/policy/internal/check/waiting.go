package check

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/tool"
)

// A policy may name tools of an upstream server or a skill before these exist, so that the
// policy can be written before the server is added. The action of such a tool is declared, so
// that the policy loads and is otherwise checked, but no call has this action. The use of the
// tool's arguments is checked once the tool exists.

// waiting are the missing tools that policies name.
type waiting []string

// WaitingTools returns the missing tools that policies name and whose server or skill has no
// tools yet, sorted. A tool that is missing from an existing server is a mistake.
func WaitingTools(texts []string, tools []tool.Descriptor) []string {
	there := map[string]bool{}
	for _, t := range tools {
		server, _, _ := strings.Cut(t.Name, "/")
		there[server] = true
	}
	var waiting []string
	for _, text := range texts {
		tokens, _ := expr.Tokenize(text) // syntax errors are found when it is parsed
		for i := range tokens {
			name := toolNamed(tokens, i)
			if server, _, ok := strings.Cut(name, "/"); ok && server != "" && !there[server] {
				waiting = append(waiting, name)
			}
		}
	}
	slices.Sort(waiting)
	return slices.Compact(waiting)
}

// toolNamed returns the tool that a token names, as an entity or by its action, or "".
func toolNamed(tokens []expr.Token, i int) string {
	if i < 2 || tokens[i].Kind != expr.TokString || tokens[i-1].Text != "::" {
		return ""
	}
	switch text := tokens[i].Unquoted(); tokens[i-2].Text {
	case string(names.TypeTool):
		return text
	case string(names.TypeAction):
		if name, ok := strings.CutPrefix(text, names.ToolPrefix); ok {
			return name
		}
	}
	return ""
}

// awaits reports whether a policy covers only missing tools.
func (w waiting) awaits(p *expr.Policy) bool {
	_, wanted := entities.ScopeActions(p.AST.Action)
	return len(wanted) > 0 && !slices.ContainsFunc(wanted, func(uid types.EntityUID) bool { return !w.has(string(uid.ID)) })
}

// has reports whether an action belongs to a missing tool.
func (w waiting) has(action string) bool {
	name, ok := strings.CutPrefix(action, names.ToolPrefix)
	return ok && slices.Contains(w, name)
}

// explains reports whether a message of the validator is only about the unknown arguments of
// missing tools.
func (w waiting) explains(p *expr.Policy, m message) bool {
	if strings.HasPrefix(m.text, "unrecognized") {
		return false
	}
	if len(m.actions) == 0 {
		return w.awaits(p)
	}
	return !slices.ContainsFunc(m.actions, func(action string) bool { return !w.has(action) })
}

// check reports the tools that a policy waits for.
func (w waiting) check(p *expr.Policy) (findings []finding.Finding) {
	seen := map[string]bool{}
	for i := range p.Tokens {
		name := toolNamed(p.Tokens, i)
		if seen[name] || !slices.Contains(w, name) {
			continue
		}
		seen[name] = true
		f := p.At(p.Tokens[i], finding.SeverityWarning, finding.CodeWaiting, "the policy names the tool %s, which does not exist: for that tool it matches nothing", name)
		server, _, _ := strings.Cut(name, "/")
		f.Help = "it takes effect once `palyra mcp add " + server + "` or the skill brings the tool"
		findings = append(findings, f)
	}
	return findings
}

// awaitsUpstream reports whether a policy only covers requests of upstream servers other than
// tool calls. Without an upstream server, such a policy matches no action. It is checked when
// the first server is added.
func awaitsUpstream(scope expr.ScopeNode) bool {
	in, ok := scope.(expr.ScopeIn)
	id := string(in.Entity.ID)
	return ok && (id == names.UpstreamGroup || slices.Contains(names.UpstreamActions, id))
}
