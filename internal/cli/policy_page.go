package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"

	palyrav1 "palyra/gen/palyra/v1"
)

// pageWidth is what an explanation fits into.
const pageWidth = 80

// printExplanation shows an explanation: for people the verdict first, then
// what to change, then the policies.
func (a *app) printExplanation(kind string, v *palyrav1.ExplainPolicyResponse, body object, inForce string) error {
	return a.printOne(kind, record{name: v.GetVerdict(), body: body}, func(p *page) {
		a.explanationHead(p, v, inForce)
		p.gap()
		explainedPolicies(p, v.GetPolicies(), a.format() == formatWide)
		if v.GetNearestPermit() != "" {
			p.wrapped("nearest", v.GetNearestPermit())
		}
		p.gap()
		p.block("policy version", v.GetPolicyVersion())
		p.block("snapshot", v.GetSnapshotDigest())
	})
}

func (a *app) explanationHead(p *page, v *palyrav1.ExplainPolicyResponse, inForce string) {
	p.field("verdict", v.GetVerdict())
	if inForce != "" {
		p.field("in force", inForce)
	}
	p.field("decision", v.GetDecision())
	p.wrapped("call", v.GetTool()+" by "+v.GetPrincipal())
	p.wrapped("file", v.GetPath())
	p.field("reason", v.GetReason())
	p.wrapped("because", firstOf(v.GetSummary(), v.GetMessage()))
	for i, f := range v.GetFlips() {
		if i == 0 {
			p.flip("change", f)
		} else {
			p.flip("or", f)
		}
	}
	if len(v.GetFlips()) == 0 {
		p.wrapped("next", v.GetRemedy())
	}
	p.wrapped("missing", v.GetMissing())
	for _, e := range v.GetErrors() {
		p.wrapped("error", e)
	}
	for _, n := range v.GetNotes() {
		p.wrapped("note", n)
	}
}

// flip writes a change with its steps, and what comes of it when that is not an
// allow.
func (p *page) flip(label string, f *palyrav1.PolicyFlip) {
	text := f.GetSummary()
	if f.GetVerdict() != "allow" {
		text += " (then: " + f.GetVerdict() + ")"
	}
	p.wrapped(label, text)
	for _, s := range f.GetSteps() {
		step := s.GetPath()
		if s.GetWas() != "" || s.GetBecomes() != "" {
			step += ": " + s.GetWas() + " -> " + s.GetBecomes()
		}
		if s.GetFile() != "" {
			step += " (" + placeText(s.GetFile(), s.GetLine()) + ")"
		}
		p.wrapped("", "- "+s.GetKind()+" "+step)
	}
}

func placeText(file string, line int32) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// explainedPolicies writes the policies: with their conditions those that
// decided or failed, or all; the others on one line.
func explainedPolicies(p *page, list []*palyrav1.ExplainedPolicy, all bool) {
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
		p.hang(0, "", fmt.Sprintf("%s %s  %s%s", e.GetEffect(), e.GetPolicyId(), placeText(e.GetFile(), e.GetLine()), mark))
		p.hang(2, "", e.GetReason())
		conjuncts(p, e.GetConjuncts())
		p.gap()
	}
	if rest > 0 {
		p.hang(0, "", plural(rest, "more policy")+" in scope, which did not decide; -o wide shows them")
	}
}

// conjuncts writes the conditions of a policy as a tree.
func conjuncts(p *page, list []*palyrav1.ExplainedConjunct) {
	clause := ""
	for _, c := range list {
		if c.GetClause() != clause {
			clause = c.GetClause()
			p.hang(2, "", clause)
		}
		conjunctTree(p, 4, c)
	}
}

const (
	// outcomeWidth is that of the longest mark.
	outcomeWidth = len("false ")
	// deepest is how far the tree is indented.
	deepest = 40
)

func conjunctTree(p *page, indent int, c *palyrav1.ExplainedConjunct) {
	mark := c.GetOutcome()
	if mark == "skipped" {
		mark = "-"
	}
	p.hang(indent, mark+strings.Repeat(" ", max(1, outcomeWidth-len(mark))), c.GetText())
	inside := min(indent+outcomeWidth, deepest)
	for _, part := range c.GetParts() {
		conjunctTree(p, inside, part)
	}
	for _, v := range c.GetValues() {
		p.hang(inside, "", v.GetPath()+" = "+v.GetValue())
	}
	if c.GetError() != "" {
		p.hang(inside, "", "error: "+c.GetError())
	}
}

// wrapped is field for a text that may be long: it goes on under itself.
func (p *page) wrapped(label, text string) {
	if text == "" {
		return
	}
	p.label(label)
	lines := wrap(visibleLine(text), pageWidth-labelWidth)
	p.b.WriteString(strings.Join(lines, "\n"+strings.Repeat(" ", labelWidth)) + "\n")
}

// hang writes a text behind an indent and a mark; further lines stand under the
// text.
func (p *page) hang(indent int, mark, text string) {
	if text == "" {
		return
	}
	before := strings.Repeat(" ", indent) + mark
	lines := wrap(visibleLine(text), pageWidth-len(before))
	p.b.WriteString(before + strings.Join(lines, "\n"+strings.Repeat(" ", len(before))) + "\n")
}

// wrap breaks a line at spaces so that each part fits into a number of cells; a
// longer word is cut.
func wrap(text string, cells int) []string {
	cells = max(cells, 20)
	if lipgloss.Width(text) <= cells {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case lipgloss.Width(line)+1+lipgloss.Width(word) <= cells:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
		for lipgloss.Width(line) > cells {
			head := fitting(line, cells)
			lines = append(lines, line[:head])
			line = line[head:]
		}
	}
	return append(lines, line)
}

// fitting is the length of the longest beginning that fits into a number of
// cells, at least one character.
func fitting(s string, cells int) int {
	end := 0
	for i, r := range s {
		if next := i + utf8.RuneLen(r); end == 0 || lipgloss.Width(s[:next]) <= cells {
			end = next
			continue
		}
		break
	}
	return end
}
