package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/policy/finding"
	"palyra/internal/policy/internal/expr"
	"palyra/internal/policy/internal/names"
	"palyra/internal/tool"
)

// A policy may name tools of an upstream server or a skill before that is there: it is written
// first, and the server added under it. The action of such a tool is declared, so that the
// policy loads and is checked in every other way; no call has it. What the policy says of the
// tool's arguments is checked when the tool is there.

// waitingTools are the tools that policies name and that are not there, of servers and skills
// of which no tool is, sorted. A tool that is missing from a server which is there is a
// mistake.
func waitingTools(sources []Source, tools []tool.Descriptor) []string {
	there := map[string]bool{}
	for _, t := range tools {
		server, _, _ := strings.Cut(t.Name, "/")
		there[server] = true
	}
	var waiting []string
	for _, src := range sources {
		tokens, _ := expr.Tokenize(src.Text) // what is wrong with it is found when it is parsed
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

// toolNamed is the tool that a token names, as an entity or by its action; "" for none.
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

// awaitsTools reports whether a policy is about tools alone that are not there.
func (l *linter) awaitsTools(p *compiled) bool {
	_, wanted := expr.ScopeActions(p.AST.Action)
	return len(wanted) > 0 && !slices.ContainsFunc(wanted, func(uid types.EntityUID) bool { return !l.isWaiting(string(uid.ID)) })
}

// isWaiting reports whether an action is that of a tool that is not there.
func (l *linter) isWaiting(action string) bool {
	name, ok := strings.CutPrefix(action, names.ToolPrefix)
	return ok && slices.Contains(l.set.vocab.waiting, name)
}

// ofWaiting reports whether a message of the validator is only about what nobody knows yet of
// tools that are not there: their arguments.
func (l *linter) ofWaiting(p *compiled, m message) bool {
	if strings.HasPrefix(m.text, "unrecognized") {
		return false
	}
	if len(m.actions) == 0 {
		return l.awaitsTools(p)
	}
	return !slices.ContainsFunc(m.actions, func(action string) bool { return !l.isWaiting(action) })
}

// checkWaiting says which tools a policy waits for.
func (l *linter) checkWaiting(p *compiled) (findings []finding.Finding) {
	seen := map[string]bool{}
	for i := range p.Tokens {
		name := toolNamed(p.Tokens, i)
		if seen[name] || !slices.Contains(l.set.vocab.waiting, name) {
			continue
		}
		seen[name] = true
		f := p.At(p.Tokens[i], finding.SeverityWarning, finding.CodeWaiting, "it waits for the tool %s, which is not there: of that tool it matches nothing", name)
		server, _, _ := strings.Cut(name, "/")
		f.Help = "it counts once `palyra mcp add " + server + "` or the skill brings the tool"
		findings = append(findings, f)
	}
	return findings
}
