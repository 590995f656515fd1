// Package manpage writes the manual page of a program from its commands. It is a leaf.
//
// mango, which fang uses, dates each page, so that two builds differ, and it omits examples.
package manpage

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page configures the page of a program in addition to its commands. It has no date, so that
// equal sources produce equal pages.
type Page struct {
	// Section of the manual, such as 1.
	Section int
	// Heading is the annotation with the heading of a flag. A flag with a heading is documented
	// only at the program, not at each command that accepts it.
	Heading string
	// SeeAlso are other pages, such as "palyrad(8)".
	SeeAlso []string
}

// Write returns the page of a program in roff (man macros).
func (p Page) Write(root *cobra.Command) string {
	w := &writer{heading: p.Heading}
	w.line(".TH %s %d", strings.ToUpper(root.Name()), p.Section)
	w.line(".SH NAME")
	w.line(`%s \- %s`, escape(root.Name()), escape(root.Short))
	w.line(".SH SYNOPSIS")
	w.line(".B %s", escape(root.Name()))
	w.line("[command] [flags]")
	w.line(".SH DESCRIPTION")
	w.text(root.Long)
	w.line(".SH OPTIONS")
	w.options(root)
	w.line(".SH COMMANDS")
	w.commands(root)
	w.examples(".SH EXAMPLES", root)
	for _, topic := range root.Commands() {
		if topic.IsAdditionalHelpTopicCommand() {
			w.line(".SH %s", escape(strings.ToUpper(strings.ReplaceAll(topic.Name(), "-", " "))))
			w.text(topic.Long)
		}
	}
	if len(p.SeeAlso) > 0 {
		w.line(".SH SEE ALSO")
		w.text(strings.Join(p.SeeAlso, ", "))
	}
	return w.out.String()
}

type writer struct {
	out     strings.Builder
	heading string
}

func (w *writer) line(format string, values ...any) {
	fmt.Fprintf(&w.out, format+"\n", values...)
}

// text writes paragraphs. Lines that begin with a space are not reformatted.
func (w *writer) text(text string) {
	kept := false
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if keep := strings.HasPrefix(line, " "); keep != kept && line != "" {
			if kept = keep; keep {
				w.line(".nf")
			} else {
				w.line(".fi")
			}
		}
		if line == "" {
			w.line(".PP")
			continue
		}
		w.line("%s", escape(line))
	}
	if kept {
		w.line(".fi")
	}
}

// options writes the flags of the program, those without a heading first.
func (w *writer) options(root *cobra.Command) {
	w.flags(root, func(f *pflag.Flag) bool { return w.headingOf(f) == "" })
	var headings []string
	seen := make(map[string]bool)
	root.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if h := w.headingOf(f); h != "" && !seen[h] {
			seen[h] = true
			headings = append(headings, h)
		}
	})
	for _, h := range headings {
		w.line(".SS %s", escape(h))
		w.flags(root, func(f *pflag.Flag) bool { return w.headingOf(f) == h })
	}
}

// commands writes all subcommands of a command, each before its own subcommands.
func (w *writer) commands(above *cobra.Command) {
	for _, c := range above.Commands() {
		if !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			continue
		}
		w.command(c)
		w.commands(c)
	}
}

func (w *writer) command(c *cobra.Command) {
	w.line(`.SS "%s"`, escape(c.UseLine()))
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	w.text(text)
	w.flags(c, func(f *pflag.Flag) bool { return w.headingOf(f) == "" && f.Name != "help" })
	w.examples(".PP", c)
}

func (w *writer) headingOf(f *pflag.Flag) string {
	return strings.Join(f.Annotations[w.heading], "")
}

// flags writes the local flags of a command that wanted accepts.
func (w *writer) flags(c *cobra.Command, wanted func(*pflag.Flag) bool) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || !wanted(f) {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		w.line(".TP")
		w.line(`\fB%s\fR %s`, escape(name), escape(value))
		w.line("%s", escape(usage+preset(f)))
	})
}

// preset describes the default of a flag, unless it is the zero value.
func preset(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "0", "0s", "[]", "<nil>":
		return ""
	}
	return " (default " + f.DefValue + ")"
}

func (w *writer) examples(before string, c *cobra.Command) {
	if !c.HasExample() {
		return
	}
	w.line("%s", before)
	w.line(".nf")
	for line := range strings.SplitSeq(c.Example, "\n") {
		w.line("%s", escape("  "+strings.TrimSpace(line)))
	}
	w.line(".fi")
}

// escape makes roff print a text literally: it escapes special characters and hyphens, and a
// control character at the start of a line.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
