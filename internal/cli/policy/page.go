package policy

import (
	"cmp"
	"fmt"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
)

// printExplanation prints an explanation: the verdict first, then the change that would flip it,
// then the policies.
func (a *policyCommands) printExplanation(kind string, v *palyrav1.ExplainPolicyResponse, body printer.Object, inForce string) error {
	return a.PrintOne(kind, printer.Record{Name: v.GetVerdict(), Body: body}, func(p *printer.Page) {
		a.explanationHead(p, v, inForce)
		p.Gap()
		explainedPolicies(p, v.GetPolicies(), a.Format() == printer.FormatWide)
		if v.GetNearestPermit() != "" {
			p.Wrapped("nearest", v.GetNearestPermit())
		}
		p.Gap()
		p.Block("policy version", v.GetPolicyVersion())
		p.Block("snapshot", v.GetSnapshotDigest())
	})
}

func (a *policyCommands) explanationHead(p *printer.Page, v *palyrav1.ExplainPolicyResponse, inForce string) {
	p.Field("verdict", v.GetVerdict())
	if inForce != "" {
		p.Field("in force", inForce)
	}
	p.Field("decision", v.GetDecision())
	p.Wrapped("call", v.GetTool()+" by "+v.GetPrincipal())
	p.Wrapped("file", v.GetPath())
	p.Field("reason", v.GetReason())
	p.Wrapped("because", cmp.Or(v.GetSummary(), v.GetMessage()))
	for i, f := range v.GetFlips() {
		if i == 0 {
			flip(p, "change", f)
		} else {
			flip(p, "or", f)
		}
	}
	if len(v.GetFlips()) == 0 {
		p.Wrapped("next", v.GetRemedy())
	}
	p.Wrapped("missing", v.GetMissing())
	p.Wrapped("skill", v.GetSkillGateDecision().GetMessage())
	for _, e := range v.GetErrors() {
		p.Wrapped("error", e)
	}
	for _, n := range v.GetNotes() {
		p.Wrapped("note", n)
	}
}

// flip prints a change with its steps, and its result if that is not an allow.
func flip(p *printer.Page, label string, f *palyrav1.PolicyFlip) {
	text := f.GetSummary()
	if f.GetVerdict() != "allow" {
		text += " (then: " + f.GetVerdict() + ")"
	}
	p.Wrapped(label, text)
	for _, s := range f.GetSteps() {
		step := s.GetPath()
		if s.GetWas() != "" || s.GetBecomes() != "" {
			step += ": " + s.GetWas() + " -> " + s.GetBecomes()
		}
		if s.GetFile() != "" {
			step += " (" + placeText(s.GetFile(), s.GetLine()) + ")"
		}
		p.Wrapped("", "- "+s.GetKind()+" "+step)
	}
}

func placeText(file string, line int32) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// explainedPolicies prints the policies: the deciding or failing ones, or all, with their
// conditions; the others on one line.
func explainedPolicies(p *printer.Page, list []*palyrav1.ExplainedPolicy, all bool) {
	rest := 0
	for _, e := range list {
		full := all || e.GetDetermining() || e.GetOutcome() == "error"
		if !full {
			rest++
			continue
		}
		mark := ""
		if e.GetDetermining() {
			mark = "  <- decided"
		}
		p.Hang(0, "", fmt.Sprintf("%s %s  %s%s", e.GetEffect(), e.GetPolicyId(), placeText(e.GetFile(), e.GetLine()), mark))
		p.Hang(2, "", e.GetReason())
		conjuncts(p, e.GetConjuncts())
		p.Gap()
	}
	if rest > 0 {
		p.Hang(0, "", text.Plural(rest, "more policy")+" in scope, which did not decide; -o wide shows them")
	}
}

// conjuncts writes the conditions of a policy as a tree.
func conjuncts(p *printer.Page, list []*palyrav1.ExplainedConjunct) {
	clause := ""
	for _, c := range list {
		if c.GetClause() != clause {
			clause = c.GetClause()
			p.Hang(2, "", clause)
		}
		conjunctTree(p, 4, c)
	}
}

const (
	// outcomeWidth is the width of the longest mark.
	outcomeWidth = len("false ")
	// deepest is the maximum indentation of the tree.
	deepest = 40
)

func conjunctTree(p *printer.Page, indent int, c *palyrav1.ExplainedConjunct) {
	mark := c.GetOutcome()
	if mark == "skipped" {
		mark = "-"
	}
	p.Hang(indent, mark+strings.Repeat(" ", max(1, outcomeWidth-len(mark))), c.GetText())
	inside := min(indent+outcomeWidth, deepest)
	for _, part := range c.GetParts() {
		conjunctTree(p, inside, part)
	}
	for _, v := range c.GetValues() {
		p.Hang(inside, "", v.GetPath()+" = "+v.GetValue())
	}
	if c.GetError() != "" {
		p.Hang(inside, "", "error: "+c.GetError())
	}
}
