package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// The output formats.
const (
	formatTable  = "table"
	formatWide   = "wide"
	formatJSON   = "json"
	formatYAML   = "yaml"
	formatNDJSON = "ndjson"
	formatName   = "name"
)

var formats = []string{formatTable, formatWide, formatJSON, formatYAML, formatNDJSON, formatName}

// record is one thing to print: for machines, and for people.
type record struct {
	// name is its id, for -o name.
	name string
	// body is all of it, for machines.
	body object
	// cells are its columns; those of the wide format follow in wide.
	cells []string
	wide  []string
}

// listing says how a command prints records of one kind.
type listing struct {
	kind    string
	columns []string
	wide    []string
	// empty is said to people when there is nothing.
	empty string
	// drop are the columns that a narrow terminal does without, the first one
	// first.
	drop []string
}

// format is the chosen output format; people get tables.
func (a *app) format() string {
	if a.flags.output == "" {
		return formatTable
	}
	return a.flags.output
}

func (a *app) checkFormat() error {
	if f := a.format(); !slices.Contains(formats, f) {
		return usage("-o %q: want one of %s", f, strings.Join(formats, ", ")).
			WithRemedy("%s", nearestOf(f, formats))
	}
	return nil
}

// printList prints all records at once.
func (a *app) printList(l listing, records []record) error {
	switch a.format() {
	case formatJSON:
		return a.printJSON(listDocument(l.kind, bodies(records)))
	case formatYAML:
		return a.printYAML(listDocument(l.kind, bodies(records)))
	case formatNDJSON, formatName:
		return a.printEach(l, records)
	}
	if len(records) == 0 {
		a.say("%s", l.empty)
		return nil
	}
	return a.writeOut(a.table(l, records))
}

func (a *app) printEach(l listing, records []record) error {
	for _, r := range records {
		if err := a.printLine(l.kind, r); err != nil {
			return err
		}
	}
	return nil
}

// printLine prints one record of a list or stream on one line.
func (a *app) printLine(kind string, r record) error {
	if a.format() == formatName {
		return a.writeOut(visibleLine(r.name) + "\n")
	}
	return a.printNDJSON(document(kind, r.body))
}

// printStream prints a record of an endless list. JSON and NDJSON are one
// object per line, YAML one document per record; a table has the widths given
// by the listing's header.
func (a *app) printStream(l listing, r record, first bool) error {
	switch a.format() {
	case formatJSON, formatNDJSON, formatName:
		return a.printLine(l.kind, r)
	case formatYAML:
		if err := a.writeOut("---\n"); err != nil {
			return err
		}
		return a.printYAML(document(l.kind, r.body))
	}
	return a.writeOut(a.streamRow(l, r, first))
}

// printOne prints a single record; people get what human writes.
func (a *app) printOne(kind string, r record, human func(p *page)) error {
	switch a.format() {
	case formatJSON:
		return a.printJSON(document(kind, r.body))
	case formatYAML:
		return a.printYAML(document(kind, r.body))
	case formatNDJSON, formatName:
		return a.printLine(kind, r)
	}
	p := &page{style: a.outStyle()}
	human(p)
	return a.writeOut(p.String())
}

func (a *app) printJSON(v any) error {
	text, err := marshal(v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	return a.writeOut(string(visibleJSON(b.Bytes())))
}

func (a *app) printNDJSON(v any) error {
	text, err := marshal(v)
	if err != nil {
		return err
	}
	return a.writeOut(string(visibleJSON(text)) + "\n")
}

func (a *app) printYAML(o object) error {
	text, err := yamlDocument(o)
	if err != nil {
		return err
	}
	return a.writeOut(text)
}

func (a *app) writeOut(s string) error {
	_, err := io.WriteString(a.out, s)
	return err
}

func bodies(records []record) []object {
	out := make([]object, len(records))
	for i, r := range records {
		out[i] = r.body
	}
	return out
}
