package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	palyrav1 "palyra/gen/palyra/v1"
)

// outputPrinter prints a tool's provisional output to a terminal as it comes.
// An incomplete character at the end of a chunk waits for the next.
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
	whole := wholeRunes(data)
	o.rest[c.GetStream()] = bytes.Clone(data[whole:])
	o.printed = true
	_, err := io.WriteString(a.streamOf(c.GetStream()), visibleText(string(data[:whole])))
	return err
}

// streamOf is where a stream of the tool goes: its stdout to stdout, its
// stderr to stderr, so that a pipe gets what the program meant for it.
func (a *app) streamOf(name string) io.Writer {
	if name == "stderr" {
		return a.err
	}
	return a.out
}

// wholeRunes is the length of data without an incomplete last character.
func wholeRunes(data []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		i := len(data) - back
		if !utf8.RuneStart(data[i]) {
			continue
		}
		if !utf8.FullRune(data[i:]) {
			return i
		}
		break
	}
	return len(data)
}

// readable reports whether `palyra call` prints for a person: a table was
// asked for, or nothing was and stdout is a terminal.
func (a *app) readable() bool {
	switch a.flags.output {
	case formatTable, formatWide:
		return true
	case "":
		return a.streams.OutTerminal
	}
	return false
}

// printResult prints the result in the chosen format.
func (c *callRun) printResult() error {
	a := c.a
	switch {
	case a.readable():
		return c.printReadable()
	case a.flags.output == formatNDJSON:
		return nil // every event was printed
	case a.flags.output == formatName:
		return a.writeOut(visibleLine(c.proposed.GetProposalId()) + "\n")
	case len(c.parts) == 0:
		return nil
	case a.flags.output == formatYAML:
		return c.printResultYAML()
	case a.streams.OutTerminal:
		return a.writeOut(string(visibleJSON(c.parts)) + "\n")
	}
	return a.writeOut(string(c.parts) + "\n")
}

func (c *callRun) printResultYAML() error {
	body := object{{"proposal_id", c.proposed.GetProposalId()}, {"outcome", c.last.GetOutcome()}, {"result", json.RawMessage(c.parts)}}
	if !json.Valid(c.parts) {
		body[2].value = string(c.parts)
	}
	return c.a.printYAML(document("CallResult", body))
}

// printReadable prints what a program wrote as it is, each stream to its own,
// and other results as indented JSON. A line about how it ended goes to
// stderr.
func (c *callRun) printReadable() error {
	var r processResult
	text := ""
	switch {
	case json.Unmarshal(c.parts, &r) == nil && r.isProcess():
		if !c.shown.printed {
			text = r.Stdout.text()
			if _, err := io.WriteString(c.a.err, visibleText(r.Stderr.text())); err != nil {
				return err
			}
		}
	case len(c.parts) > 0:
		var b bytes.Buffer
		if json.Indent(&b, c.parts, "", "  ") != nil {
			b.Reset()
			b.Write(c.parts)
		}
		text = string(visibleJSON(b.Bytes())) + "\n"
	}
	if err := c.a.writeOut(visibleText(text)); err != nil {
		return err
	}
	for _, note := range r.Notes {
		c.a.say("%s", note)
	}
	c.a.say("%s", c.ending(r))
	return nil
}

func (c *callRun) ending(r processResult) string {
	parts := []string{c.last.GetOutcome()}
	if r.ExitCode != nil {
		parts = append(parts, fmt.Sprintf("exit code %d", *r.ExitCode))
	}
	if r.Signal != "" {
		parts = append(parts, "signal "+r.Signal)
	}
	if r.isProcess() && (r.Stdout.Truncated || r.Stderr.Truncated) {
		parts = append(parts, "output cut")
	}
	if d := c.last.GetDuration(); d != nil {
		parts = append(parts, d.AsDuration().Round(1e6).String())
	}
	if c.attested != nil {
		parts = append(parts, fmt.Sprintf("attestation %s (journal %d)", c.attested.GetAttestationId(), c.attested.GetJournalSeq()))
	}
	return strings.Join(parts, ", ")
}

// processResult is the part of process.run's result that people read.
type processResult struct {
	ExitCode *int           `json:"exit_code"`
	Signal   string         `json:"signal"`
	Stdout   *processStream `json:"stdout"`
	Stderr   *processStream `json:"stderr"`
	// Notes are what there is to know of the run, such as hosts that it could not
	// reach.
	Notes []string `json:"notes"`
}

type processStream struct {
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
	// Tail is the end of what is missing in the middle.
	Tail       string `json:"tail"`
	TotalBytes int64  `json:"total_bytes"`
	Truncated  bool   `json:"truncated"`
}

func (r processResult) isProcess() bool { return r.Stdout != nil && r.Stderr != nil }

// text is what the program wrote, with a line where something is missing.
func (s *processStream) text() string {
	if s.Encoding != "utf-8" && s.Content != "" {
		return fmt.Sprintf("(%d bytes that are no text; -o json has them)\n", s.TotalBytes)
	}
	text := withNewline(s.Content)
	if s.Truncated {
		text += fmt.Sprintf("(... %d bytes in all, cut here ...)\n", s.TotalBytes)
	}
	return text + withNewline(s.Tail)
}

func withNewline(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}
