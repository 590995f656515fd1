package policy

import (
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
)

// closedTypes are the entity types whose members are known when a set loads;
// a name that is not among them is a mistake.
var closedTypes = []types.EntityType{
	typeRole, typePrincipalSet, typeTool, typeToolSet, typeChannelSet, typeSkillSet,
}

// openTypes are those whose members may come later; an unknown name may be a
// mistake.
var openTypes = []types.EntityType{typeUser, typeAgent, typeServer, typeWorkspace}

// checkNames finds entities that the policy names and nobody knows. Cedar
// itself takes any id for one that could exist, so that a misspelt forbid
// would forbid nothing.
func (l *linter) checkNames(p *compiled) []Finding {
	var findings []Finding
	for i := 2; i < len(p.tokens); i++ {
		t := p.tokens[i]
		if t.kind != tokString || p.tokens[i-1].text != "::" || p.tokens[i-2].kind != tokIdent {
			continue
		}
		uid := types.NewEntityUID(types.EntityType(p.tokens[i-2].text), types.String(t.unquoted()))
		if _, known := l.set.dir.entities[uid]; known && uid.ID != unknownTool {
			continue
		}
		severity := SeverityError
		switch {
		case slices.Contains(openTypes, uid.Type):
			severity = SeverityWarning
		case !slices.Contains(closedTypes, uid.Type):
			continue
		}
		f := p.at(t, severity, CodeUnknownEntity, "there is no %s named %s", uid.Type, uid.ID)
		f.Help = didYouMean(string(uid.ID), l.namesOf(uid.Type))
		if f.Help == "" && uid.Type == typeRole {
			f.Help = "declare the role in the configuration; there are: " + strings.Join(l.namesOf(typeRole), ", ")
		}
		findings = append(findings, f)
	}
	return findings
}

func (l *linter) namesOf(t types.EntityType) []string {
	var out []string
	for uid := range l.set.dir.entities {
		if uid.Type == t && uid.ID != unknownTool && uid.ID != nobody {
			out = append(out, string(uid.ID))
		}
	}
	slices.Sort(out)
	return out
}
