// Package check finds mistakes in the policies of a set when the set loads: policies that do
// not fit the schema, names that do not exist, approvals that are waived by accident, and
// conditions under which the effect of an approval is undefined. No decision runs it.
package check

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/internal/entities"
	"palyra/internal/call/policy/internal/expr"
	"palyra/internal/call/policy/internal/names"
	"palyra/internal/call/policy/internal/vocabulary"
	"palyra/internal/core/tool"
)

// Set is the set that the policies belong to.
type Set struct {
	Vocabulary *vocabulary.Vocabulary
	Entities   *entities.Directory
	Tools      []tool.Descriptor
	// Texts are the facts that equal or contain only certain texts, by name.
	Texts map[string]Texts
	// NoApproval are the approval facts of a call without an approval.
	NoApproval types.Record
}

// Policies validates every policy strictly and runs the lints. A policy that does not validate
// is not linted: its first mistake would be reported twice.
func Policies(set Set, policies []*expr.Policy) []finding.Finding {
	c := &checker{set, newScopes(set.Vocabulary)}
	missing := waiting(set.Vocabulary.Waiting)
	var findings []finding.Finding
	for _, p := range policies {
		found := append(checkNames(p, set.Entities.Entities), missing.check(p)...)
		found = append(found, validate(p, c.scopes, missing)...)
		if !finding.HasErrors(found) && !missing.awaits(p) {
			found = append(found, c.lint(p)...)
		}
		findings = append(findings, found...)
	}
	for i := range findings {
		findings[i].Message = strings.ReplaceAll(findings[i].Message, "__cedar::internal::", "")
	}
	return findings
}

// checker lints the policies of one set.
type checker struct {
	set    Set
	scopes *scopes
}

func (c *checker) lint(p *expr.Policy) []finding.Finding {
	findings := append(c.checkHas(p), checkValues(p, c.set.Texts)...)
	if reaches, _ := c.scopes.reachesTools(p); reaches || c.scopes.reaches(p, names.CommitAction) || c.scopes.reaches(p, names.InjectAction) {
		findings = append(findings, Monotone(p)...)
	}
	findings = append(findings, c.checkWaives(p)...)
	findings = append(findings, c.checkHostNetwork(p)...)
	findings = append(findings, c.checkPermitsAll(p)...)
	if !p.Builtin && !finding.HasErrors(findings) {
		findings = append(findings, c.checkApplies(p)...)
	}
	return findings
}

// validate converts each error of cedar-go's strict validator to a finding with a position.
func validate(p *expr.Policy, s *scopes, missing waiting) []finding.Finding {
	messages := verdicts.of(verdictKeyOf(s.vocabulary.Digest, p.Text), func() []message {
		err := s.validator(p.AST.Action).Policy("", p.AST)
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
		if missing.explains(p, m) {
			continue
		}
		findings = append(findings, (&locator{s, p}).locate(m))
	}
	return findings
}

// noAction begins the message for a scope that fits no action.
const noAction = "unable to find an applicable action"

// closedTypes are the entity types whose members are fixed when a set loads; any other name is
// a mistake.
var closedTypes = []types.EntityType{
	names.TypeRole, names.TypePrincipalSet, names.TypeTool, names.TypeToolSet, names.TypeChannelSet, names.TypeSkillSet,
}

// openTypes are the types whose members may be added later; an unknown name may be a mistake.
var openTypes = []types.EntityType{names.TypeUser, names.TypeAgent, names.TypeServer, names.TypeSkill, names.TypeWorkspace}

// checkNames finds unknown entities. Cedar accepts any id, so a misspelt forbid would forbid
// nothing.
func checkNames(p *expr.Policy, known types.EntityMap) []finding.Finding {
	var findings []finding.Finding
	for i := 2; i < len(p.Tokens); i++ {
		t := p.Tokens[i]
		if t.Kind != expr.TokString || p.Tokens[i-1].Text != "::" || p.Tokens[i-2].Kind != expr.TokIdent {
			continue
		}
		uid := types.NewEntityUID(types.EntityType(p.Tokens[i-2].Text), types.String(t.Unquoted()))
		if _, is := known[uid]; is && uid.ID != names.UnknownTool {
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
		f.Help = finding.DidYouMean(string(uid.ID), namesOf(known, uid.Type))
		if f.Help == "" && uid.Type == names.TypeRole {
			f.Help = "declare the role in the configuration; declared roles: " + strings.Join(namesOf(known, names.TypeRole), ", ")
		}
		findings = append(findings, f)
	}
	return findings
}

func namesOf(known types.EntityMap, t types.EntityType) []string {
	var out []string
	for uid := range known {
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
