package calls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/printer"
)

// outputPrinter prints a tool's provisional output to a terminal. An incomplete character at the
// end of a chunk waits for the next.
type outputPrinter struct {
	printed bool
	rest    map[string][]byte
}

func (o *outputPrinter) chunk(a *app, c *palyrav1.ToolOutputChunk) error {
	if !a.readable() {
		return nil
	}
	if o.rest == nil {
		o.rest = make(map[string][]byte)
	}
	data := append(o.rest[c.GetStream()], c.GetData()...)
	whole := ask.WholeRunes(data)
	o.rest[c.GetStream()] = bytes.Clone(data[whole:])
	o.printed = true
	_, err := io.WriteString(a.streamOf(c.GetStream()), printer.VisibleText(string(data[:whole])))
	return err
}

// streamOf maps the tool's stdout to stdout and its stderr to stderr, so that pipes receive the
// intended stream.
func (a *app) streamOf(name string) io.Writer {
	if name == "stderr" {
		return a.Err
	}
	return a.Out
}

// readable reports whether `palyra call` prints for a terminal: a table was requested, or no format
// was and stdout is a terminal.
func (a *app) readable() bool {
	switch a.Output {
	case printer.FormatTable, printer.FormatWide:
		return true
	case "":
		return a.OutTerminal
	}
	return false
}

// printResult prints the result in the selected format.
func (c *callRun) printResult() error {
	a := c.a
	switch {
	case a.readable():
		return c.printReadable()
	case a.Output == printer.FormatNDJSON:
		return nil // every event was printed
	case a.Output == printer.FormatName:
		return a.WriteOut(printer.VisibleLine(c.proposed.GetProposalId()) + "\n")
	case len(c.parts) == 0:
		return nil
	case a.Output == printer.FormatYAML:
		return c.printResultYAML()
	case a.OutTerminal:
		return a.WriteOut(string(printer.VisibleJSON(c.parts)) + "\n")
	}
	return a.WriteOut(string(c.parts) + "\n")
}

func (c *callRun) printResultYAML() error {
	body := printer.Object{{"proposal_id", c.proposed.GetProposalId()}, {"outcome", c.last.GetOutcome()}, {"result", json.RawMessage(c.parts)}}
	if !json.Valid(c.parts) {
		body[2].Value = string(c.parts)
	}
	return c.a.PrintYAML(printer.Document("CallResult", body))
}

// printReadable prints a program's output unchanged, each stream to its own, files and lists as
// text, and other results as indented JSON. A line about the outcome is printed to stderr.
func (c *callRun) printReadable() error {
	var r ask.ProcessResult
	text := ""
	switch {
	case json.Unmarshal(c.parts, &r) == nil && r.IsProcess():
		if !c.shown.printed {
			text = r.Stdout.Text()
			if _, err := io.WriteString(c.a.Err, printer.VisibleText(r.Stderr.Text())); err != nil {
				return err
			}
		}
	case len(c.parts) > 0:
		if readable, ok := ask.Readable(c.parts); ok {
			text = readable
			break
		}
		var b bytes.Buffer
		if json.Indent(&b, c.parts, "", "  ") != nil {
			b.Reset()
			b.Write(c.parts)
		}
		text = string(printer.VisibleJSON(b.Bytes())) + "\n"
	}
	if err := c.a.WriteOut(printer.VisibleText(text)); err != nil {
		return err
	}
	for _, note := range r.Notes {
		c.a.Say("%s", note)
	}
	c.a.Say("%s", c.ending(r))
	if posture := ask.Posture(c.attested.GetPosture()); posture != "" {
		c.a.Say("%s", posture)
	}
	return nil
}

func (c *callRun) ending(r ask.ProcessResult) string {
	word, how := ask.Ending(c.last.GetOutcome(), r)
	parts := []string{word + how}
	if r.IsProcess() && (r.Stdout.Truncated || r.Stderr.Truncated) {
		parts = append(parts, "output truncated")
	}
	if d := c.last.GetDuration(); d != nil {
		parts = append(parts, d.AsDuration().Round(1e6).String())
	}
	if c.attested != nil {
		parts = append(parts, fmt.Sprintf("attestation %s (journal %d)", c.attested.GetAttestationId(), c.attested.GetJournalSeq()))
	}
	return strings.Join(parts, ", ")
}
