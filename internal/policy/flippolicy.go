package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/tool"
)

// variant is the set with other settings, members or policies. Nothing is
// validated: changes are made of what was. Schema and roles stay, so the
// tools, their schemas and the declared roles have to be the same.
func (s *Set) variant(cfg Config, changes []change) *Set {
	if !slices.ContainsFunc(changes, func(c change) bool { return c.step.Kind == StepEntity || c.step.Kind == StepPolicy }) {
		return s
	}
	v := &Set{
		config: cfg, vocab: s.vocab, dir: buildDirectory(cfg, s.vocab), tally: s.tally, offers: s.offers,
		noApproval: s.noApproval, settings: cfg.Snapshot, policies: slices.Clone(s.policies), byID: make(map[cedar.PolicyID]*compiled),
		version: s.version, snapshotDigest: s.snapshotDigest,
	}
	v.ideal = sync.OnceValue(func() types.Record { return v.crowdFacts(everywhere()) })
	for _, c := range changes {
		v.policies = slices.DeleteFunc(v.policies, func(p *compiled) bool { return p == c.drop })
		if c.add != nil {
			v.policies = append(v.policies, c.add)
		}
	}
	for _, p := range v.policies {
		v.byID[cedar.PolicyID(p.id)] = p
	}
	v.index = buildIndex(v.policies)
	return v
}

// dropPolicy is the change that removes a policy of an operator. The embedded
// ones stay whatever anybody writes.
func dropPolicy(p *compiled) (change, bool) {
	return change{
		effort: effortPolicy, drop: p,
		say: fmt.Sprintf("remove or change the %s %s at %s:%d", effectWord(p.permits()), p.id, p.source.name, p.line),
		step: FlipStep{
			Kind: StepPolicy, Path: p.id, Was: effectWord(p.permits()), Becomes: ValueAbsent,
			File: p.source.name, Line: p.line,
		},
		edit: func(to *Scenario) error { return blankOut(to, p) },
	}, !p.builtin
}

// blankOut takes a policy's text out of its source and leaves every other
// policy on its line.
func blankOut(to *Scenario, p *compiled) error {
	i := slices.IndexFunc(to.Config.Sources, func(src Source) bool {
		return src.Name == p.source.name && strings.HasPrefix(src.Text[min(p.offset, len(src.Text)):], p.text)
	})
	if i < 0 {
		return fmt.Errorf("the configuration has no source %s with the policy %s", p.source.name, p.id)
	}
	blank := []byte(p.text)
	for j, b := range blank {
		if b != '\n' {
			blank[j] = ' '
		}
	}
	src := to.Config.Sources[i]
	to.Config.Sources = slices.Clone(to.Config.Sources)
	to.Config.Sources[i].Text = src.Text[:p.offset] + string(blank) + src.Text[p.offset+len(p.text):]
	return nil
}

// suggestedName is the source of a permit that an explanation adds.
const suggestedName = "(suggested)"

// addPermit is the change that permits the caller this tool, or to commit: what
// is sensitive with a person's yes, unless the call has to do without. A permit
// for a program says which network it may have.
func (s *Set) addPermit(r Request, goal Effect) (change, bool) {
	uid := uidOf(r.Caller.Principal)
	action, what := types.String(toolPrefix+r.Tool), "this tool may run"
	d := s.descriptor(r.Tool)
	sensitive := d.Sensitive()
	if r.Commit != nil {
		action, what = commitAction, "these changes may be committed"
		sensitive = len(r.Commit.Protected)+len(r.Commit.Classes) > 0
	}
	text := fmt.Sprintf("permit(principal == %s, action == %s, resource)", uid, types.NewEntityUID(typeAction, action))
	var when []string
	if r.Commit == nil && slices.Contains(d.Capabilities, tool.ProcessExec) {
		network := `context.egress.mode != "none"`
		if r.Facts.EgressMode == "none" {
			network = `context.egress.mode == "none"`
		}
		when = append(when, network)
	}
	switch {
	case sensitive && goal == Allow, r.Commit != nil && !sensitive:
		text = fmt.Sprintf("@waives(\"approval: decide whether %s with no human\")\n%s", what, text)
	case sensitive:
		when = append(when, "context.approval.granted")
	}
	if len(when) > 0 {
		text += " when { " + strings.Join(when, " && ") + " }"
	}
	text += ";"
	src := Source{Name: suggestedName, Text: text + "\n"}
	parsed, _, findings := parseSource(src, false)
	if hasErrors(findings) || len(parsed) != 1 {
		return change{}, false
	}
	return change{
		effort: effortPolicy, add: parsed[0],
		say:  "add a permit: " + clipCondition(text),
		step: FlipStep{Kind: StepPolicy, Path: parsed[0].id, Was: ValueAbsent, Becomes: text},
		edit: func(to *Scenario) error {
			to.Config.Sources = append(slices.Clone(to.Config.Sources), src)
			return nil
		},
	}, true
}
