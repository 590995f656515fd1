package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// checkPolicies validates every policy strictly and runs the lints. A policy that does not
// validate is not linted: its first mistake would be reported twice.
func (s *Set) checkPolicies() []finding.Finding {
	l := &linter{set: s, reach: make(map[string][]types.EntityUID)}
	var findings []finding.Finding
	for _, p := range s.policies {
		found := append(l.checkNames(p), l.checkWaiting(p)...)
		found = append(found, l.validate(p)...)
		if !finding.HasErrors(found) && !l.awaitsTools(p) {
			found = append(found, l.lint(p)...)
		}
		findings = append(findings, found...)
	}
	for i := range findings {
		findings[i].Message = strings.ReplaceAll(findings[i].Message, "__cedar::internal::", "")
	}
	return findings
}

// linter checks the policies of one set.
type linter struct {
	set *Set
	// reach caches the actions that an action scope can match.
	reach map[string][]types.EntityUID
}

func (l *linter) lint(p *compiled) []finding.Finding {
	findings := append(l.checkHas(p), l.checkValues(p.Policy)...)
	if reaches, _ := l.reachesTools(p); reaches || l.reaches(p, names.CommitAction) || l.reaches(p, names.InjectAction) {
		findings = append(findings, checkMonotone(p.Policy)...)
	}
	findings = append(findings, l.checkWaives(p)...)
	findings = append(findings, l.checkHostNetwork(p)...)
	findings = append(findings, l.checkPermitsAll(p)...)
	if !p.Builtin && !finding.HasErrors(findings) {
		findings = append(findings, l.checkApplies(p)...)
	}
	return findings
}

// actionsOf returns the actions with a context that p's scope can match.
func (l *linter) actionsOf(p *compiled) []types.EntityUID {
	key, wanted := expr.ScopeActions(p.AST.Action)
	if known, ok := l.reach[key]; ok {
		return known
	}
	var out []types.EntityUID
	for uid, action := range l.set.vocab.schema.Actions {
		if action.AppliesTo != nil && (wanted == nil || l.set.vocab.actionMatches(uid, wanted)) {
			out = append(out, uid)
		}
	}
	slices.SortFunc(out, compareUID)
	l.reach[key] = out
	return out
}

// validate converts each error of cedar-go's strict validator to a finding with a position.
func (l *linter) validate(p *compiled) []finding.Finding {
	vocab := l.set.vocab
	messages := verdicts.of(verdictKeyOf(vocab.digest, p.Text), func() []message {
		err := vocab.forScope(p.AST.Action).Policy("", p.AST)
		if err == nil {
			return nil
		}
		return mergeActions(messagesOf(err))
	})
	var findings []finding.Finding
	for _, m := range messages {
		// An unknown name in the scope also leaves no action; report it once.
		if strings.HasPrefix(m.text, noAction) && (len(messages) > 1 || awaitsUpstream(p.AST.Action)) {
			continue
		}
		if l.ofWaiting(p, m) {
			continue
		}
		findings = append(findings, l.locate(p, m))
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

// noAction begins the message for a scope that fits no action.
const noAction = "unable to find an applicable action"

func messagesOf(err error) []string {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range joined.Unwrap() {
		out = append(out, messagesOf(e)...)
	}
	return out
}

// message is one kind of error, with the actions for which it was raised.
type message struct {
	text    string
	raw     string
	actions []string
}

// mergeActions joins messages that differ only in the action they name.
func mergeActions(raw []string) []message {
	var out []message
	for _, text := range raw {
		plain, action := cutAction(text)
		i := slices.IndexFunc(out, func(m message) bool { return m.text == plain })
		if i < 0 {
			out = append(out, message{text: plain, raw: text})
			i = len(out) - 1
		}
		if action != "" && action != names.ToolPrefix+names.UnknownTool && !slices.Contains(out[i].actions, action) {
			out[i].actions = append(out[i].actions, action)
		}
	}
	for i := range out {
		slices.Sort(out[i].actions)
	}
	return out
}

// cutAction removes ` in context for Action::"name"` from a message.
func cutAction(text string) (plain, action string) {
	const mark = ` for Action::"`
	before, after, ok := strings.Cut(text, mark)
	if !ok {
		return text, ""
	}
	name, rest, ok := strings.Cut(after, `"`)
	if !ok {
		return text, ""
	}
	return before + rest, name
}

// forActions describes briefly the actions that a finding applies to.
func forActions(actions []string) string {
	switch len(actions) {
	case 0:
		return ""
	case 1, 2, 3:
		return " for " + strings.Join(actions, ", ")
	default:
		return " for " + strings.Join(actions[:2], ", ") + " and " + text.Plural(len(actions)-2, "more action")
	}
}

// closedTypes are the entity types whose members are fixed when a set loads; any other name is
// a mistake.
var closedTypes = []types.EntityType{
	names.TypeRole, names.TypePrincipalSet, names.TypeTool, names.TypeToolSet, names.TypeChannelSet, names.TypeSkillSet,
}

// openTypes are the types whose members may be added later; an unknown name may be a mistake.
var openTypes = []types.EntityType{names.TypeUser, names.TypeAgent, names.TypeServer, names.TypeSkill, names.TypeWorkspace}

// checkNames finds unknown entities. Cedar accepts any id, so a misspelt forbid would forbid
// nothing.
func (l *linter) checkNames(p *compiled) []finding.Finding {
	var findings []finding.Finding
	for i := 2; i < len(p.Tokens); i++ {
		t := p.Tokens[i]
		if t.Kind != expr.TokString || p.Tokens[i-1].Text != "::" || p.Tokens[i-2].Kind != expr.TokIdent {
			continue
		}
		uid := types.NewEntityUID(types.EntityType(p.Tokens[i-2].Text), types.String(t.Unquoted()))
		if _, known := l.set.dir.entities[uid]; known && uid.ID != names.UnknownTool {
			continue
		}
		severity := finding.SeverityError
		switch {
		case slices.Contains(openTypes, uid.Type):
			severity = finding.SeverityWarning
		case !slices.Contains(closedTypes, uid.Type):
			continue
		}
		f := p.At(t, severity, finding.CodeUnknownEntity, "unknown %s %s", uid.Type, uid.ID)
		f.Help = finding.DidYouMean(string(uid.ID), l.namesOf(uid.Type))
		if f.Help == "" && uid.Type == names.TypeRole {
			f.Help = "declare the role in the configuration; declared roles: " + strings.Join(l.namesOf(names.TypeRole), ", ")
		}
		findings = append(findings, f)
	}
	return findings
}

func (l *linter) namesOf(t types.EntityType) []string {
	var out []string
	for uid := range l.set.dir.entities {
		if uid.Type == t && uid.ID != names.UnknownTool && uid.ID != names.Nobody {
			out = append(out, string(uid.ID))
		}
	}
	slices.Sort(out)
	return out
}

// A policy may name tools of an upstream server or a skill before these exist, so that the
// policy can be written before the server is added. The action of such a tool is declared, so
// that the policy loads and is otherwise checked, but no call has this action. The use of the
// tool's arguments is checked once the tool exists.

// waitingTools returns the missing tools that policies name and whose server or skill has no
// tools yet, sorted. A tool that is missing from an existing server is a mistake.
func waitingTools(sources []Source, tools []tool.Descriptor) []string {
	there := map[string]bool{}
	for _, t := range tools {
		server, _, _ := strings.Cut(t.Name, "/")
		there[server] = true
	}
	var waiting []string
	for _, src := range sources {
		tokens, _ := expr.Tokenize(src.Text) // syntax errors are found when it is parsed
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

// awaitsTools reports whether a policy covers only missing tools.
func (l *linter) awaitsTools(p *compiled) bool {
	_, wanted := expr.ScopeActions(p.AST.Action)
	return len(wanted) > 0 && !slices.ContainsFunc(wanted, func(uid types.EntityUID) bool { return !l.isWaiting(string(uid.ID)) })
}

// isWaiting reports whether an action belongs to a missing tool.
func (l *linter) isWaiting(action string) bool {
	name, ok := strings.CutPrefix(action, names.ToolPrefix)
	return ok && slices.Contains(l.set.vocab.waiting, name)
}

// ofWaiting reports whether a message of the validator is only about the unknown arguments of
// missing tools.
func (l *linter) ofWaiting(p *compiled, m message) bool {
	if strings.HasPrefix(m.text, "unrecognized") {
		return false
	}
	if len(m.actions) == 0 {
		return l.awaitsTools(p)
	}
	return !slices.ContainsFunc(m.actions, func(action string) bool { return !l.isWaiting(action) })
}

// checkWaiting reports the tools that a policy waits for.
func (l *linter) checkWaiting(p *compiled) (findings []finding.Finding) {
	seen := map[string]bool{}
	for i := range p.Tokens {
		name := toolNamed(p.Tokens, i)
		if seen[name] || !slices.Contains(l.set.vocab.waiting, name) {
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

// checkValues finds texts that a fact is compared with but can never equal, because a misspelt
// forbid would forbid nothing.
func (l *linter) checkValues(p *expr.Policy) []finding.Finding {
	var findings []finding.Finding
	for _, cond := range p.Conditions() {
		cond.Body.Walk(func(t *expr.Tree) bool {
			switch t.Node.(type) {
			case expr.NodeEqual, expr.NodeNotEqual, expr.NodeContains, expr.NodeContainsAll, expr.NodeContainsAny:
				for i, side := range t.Kids {
					for _, fact := range factsIn(side) {
						findings = append(findings, checkLiterals(p, fact, l.valuesOf(fact), t.Kids[1-i])...)
					}
				}
			}
			return true
		})
	}
	return findings
}

// factsIn returns the fact that an expression reads, or the facts among its elements.
func factsIn(t *expr.Tree) []*Fact {
	if chain := t.Chain(); len(chain) > 1 && chain[0] == "context" {
		if fact := FactNamed(strings.Join(chain[1:], ".")); fact != nil {
			return []*Fact{fact}
		}
	}
	var out []*Fact
	for _, k := range expr.ElementsOf(t) {
		out = append(out, factsIn(k)...)
	}
	return out
}

// valuesOf returns all texts that a fact can equal or contain, nil for any. The texts in votes
// are roles and surfaces: a vote with a misspelt role never exists.
func (l *linter) valuesOf(fact *Fact) []string {
	if fact.Name != "approval.votes" {
		return fact.Values
	}
	values := []string{string(names.AnyRole)}
	for _, role := range l.set.vocab.roles {
		values = append(values, string(role))
	}
	return append(values, surfaceNames()...)
}

func checkLiterals(p *expr.Policy, fact *Fact, values []string, with *expr.Tree) []finding.Finding {
	var findings []finding.Finding
	for _, literal := range expr.Literals(with) {
		if values == nil || slices.Contains(values, literal.Text) {
			continue
		}
		verb := "is never"
		if strings.HasPrefix(fact.Type, "Set<") {
			verb = "never holds"
		}
		f := p.At(literal.At, finding.SeverityError, finding.CodeUnknownValue, "context.%s %s %q", fact.Name, verb, literal.Text)
		if f.Help = finding.DidYouMean(literal.Text, values); f.Help == "" {
			f.Help = fmt.Sprintf("there are: %q", values)
		}
		findings = append(findings, f)
	}
	return findings
}
