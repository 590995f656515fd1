package runs

import (
	"fmt"
	"html"
	"strings"
)

// page builds HTML. All text that is not a constant of this file is escaped with
// html.EscapeString and placed between tags, never inside one. html/template would do the same,
// but it prevents dead-code elimination of methods, which adds 10 MB to palyra.
type page struct{ b strings.Builder }

// raw writes tags.
func (p *page) raw(tags string) { p.b.WriteString(tags) }

// tag writes an element with a text; attribute is "" or a constant that begins with a space.
func (p *page) tag(name, attribute, text string) {
	p.b.WriteString("<" + name + attribute + ">" + html.EscapeString(text) + "</" + name + ">")
}

// optional writes a heading and a text, unless the text is empty.
func (p *page) optional(level, heading, text string) {
	if text != "" {
		p.tag(level, "", heading)
		p.tag("pre", "", text)
		p.raw("\n")
	}
}

// list writes a section of points, unless the list is empty.
func (p *page) list(class, heading string, points []string) {
	if len(points) == 0 {
		return
	}
	p.raw(`<section class="` + class + `">`)
	p.tag("h2", "", heading)
	p.raw("<ul>")
	for _, point := range points {
		p.tag("li", "", point)
	}
	p.raw("</ul></section>\n")
}

// fields writes names with their texts.
func (p *page) fields(list []field) {
	p.raw("<table><tbody>\n")
	for _, f := range list {
		p.raw("<tr>")
		p.tag("th", ` scope="row"`, f.Name)
		p.tag("td", "", f.Text)
		p.raw("</tr>\n")
	}
	p.raw("</tbody></table>\n")
}

// table writes rows under the names of their columns.
func (p *page) table(columns []string, rows [][]string) {
	p.raw("<table><thead><tr>")
	for _, c := range columns {
		p.tag("th", ` scope="col"`, c)
	}
	p.raw("</tr></thead><tbody>\n")
	for _, row := range rows {
		p.raw("<tr>")
		for _, text := range row {
			p.tag("td", "", text)
		}
		p.raw("</tr>\n")
	}
	p.raw("</tbody></table>\n")
}

// html returns the page that shows v.
func (v *reportView) html() string {
	p := &page{}
	p.raw(`<!doctype html>
<html lang="en" dir="ltr">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '` + v.StyleHash + `'; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
`)
	p.tag("title", "", "Run "+v.Run)
	p.raw("\n<style>" + reportCSS + "</style>\n</head>\n<body>\n")
	p.tag("h1", "", "Run "+v.Run)
	p.tag("p", "", "Written by palyra at "+v.At+" for the person who ran the command, from the evidence of the gateway "+v.Gateway+". This page proves nothing by itself: the commands at its end do.")
	p.list("wrong", "Does not verify", v.Wrong)
	p.list("missing", "Not in this report", v.Missing)
	p.fields(v.Fields)
	p.optional("h3", "Task", v.Task)
	for _, c := range v.Calls {
		p.call(c)
	}
	if len(v.Calls) == 0 {
		p.tag("p", "", "It made no call.")
	}
	p.optional("h2", "Last answer", v.Answer)
	p.tag("h2", "", "What verifies it")
	if len(v.End) > 0 {
		p.fields(v.End)
	}
	p.tag("p", "", "Compare the fingerprint of the CA in keys.json over another channel. Then the journal and its attestations are verified with no gateway; a proof asks the gateway and compares with the checkpoint that was stored before.")
	p.tag("pre", "", strings.Join(v.Commands, "\n"))
	p.raw("\n</body>\n</html>\n")
	return p.b.String()
}

func (p *page) call(c callView) {
	p.raw("<section>\n")
	p.tag("h2", "", fmt.Sprintf("Call %d: %s", c.Number, c.Tool))
	p.tag("h3", "", "Arguments, as the model wrote them")
	p.tag("pre", "", c.Input)
	p.tag("h3", "", "What happened")
	steps := make([][]string, len(c.Steps))
	for i, s := range c.Steps {
		steps[i] = []string{s.At, s.What, s.ID, s.More}
	}
	p.table([]string{"At", "What", "Id", "More"}, steps)
	if len(c.Decision) > 0 {
		p.tag("h3", "", "Decision")
		p.fields(c.Decision)
	}
	for _, a := range c.Approvals {
		p.approval(a)
	}
	if len(c.Evidence) > 0 {
		p.tag("h3", "", "Evidence")
		p.fields(c.Evidence)
	}
	p.raw("</section>\n")
}

func (p *page) approval(a approvalView) {
	p.tag("h3", "", "Approval "+a.ID)
	p.fields(a.Fields)
	p.optional("h3", "Arguments, as the approvers were shown them", a.Arguments)
	if len(a.Votes) == 0 {
		return
	}
	votes := make([][]string, len(a.Votes))
	for i, v := range a.Votes {
		votes[i] = []string{v.Answer, v.By, v.On, v.At, v.Digest, v.Reason}
	}
	p.table([]string{"Vote", "By", "On", "At", "Digest that was shown", "Reason"}, votes)
}
