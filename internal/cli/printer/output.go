package printer

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"palyra/internal/cli/command"
	"palyra/internal/core/text"
)

// The output formats.
const (
	FormatTable  = "table"
	FormatWide   = "wide"
	FormatJSON   = "json"
	FormatYAML   = "yaml"
	FormatNDJSON = "ndjson"
	FormatName   = "name"
)

// Formats are the values of --output.
var Formats = []string{FormatTable, FormatWide, FormatJSON, FormatYAML, FormatNDJSON, FormatName}

// Record is one item of output, for machines and for terminals.
type Record struct {
	// Name is the id of the item, for -o name.
	Name string
	// Body is the whole item, for machine formats.
	Body Object
	// Cells are the columns of the item; the additional ones of the wide format are in Wide.
	Cells []string
	Wide  []string
}

// Listing defines how a command prints records of one kind.
type Listing struct {
	Kind    string
	Columns []string
	Wide    []string
	// Empty is printed if there are no records.
	Empty string
	// Drop are the columns that are omitted on a narrow terminal, in order.
	Drop []string
}

// Format returns the selected output format; the default is table.
func (a *Printer) Format() string {
	if a.Output == "" {
		return FormatTable
	}
	return a.Output
}

// CheckFormat refuses an invalid --output.
func (a *Printer) CheckFormat() error {
	if f := a.Format(); !slices.Contains(Formats, f) {
		return command.Usage("-o %q: want one of %s", f, strings.Join(Formats, ", ")).
			WithRemedy("%s", text.NearestHelp(f, Formats))
	}
	return nil
}

// PrintList prints all records at once.
func (a *Printer) PrintList(l Listing, records []Record) error {
	switch a.Format() {
	case FormatJSON:
		return a.PrintJSON(listDocument(l.Kind, bodies(records)))
	case FormatYAML:
		return a.PrintYAML(listDocument(l.Kind, bodies(records)))
	case FormatNDJSON, FormatName:
		return a.printEach(l, records)
	}
	if len(records) == 0 {
		a.Say("%s", l.Empty)
		return nil
	}
	return a.WriteOut(a.layout().rows(l, records))
}

func (a *Printer) printEach(l Listing, records []Record) error {
	for _, r := range records {
		if err := a.printLine(l.Kind, r); err != nil {
			return err
		}
	}
	return nil
}

// printLine prints one record of a list or stream on one line.
func (a *Printer) printLine(kind string, r Record) error {
	if a.Format() == FormatName {
		return a.WriteOut(VisibleLine(r.Name) + "\n")
	}
	return a.PrintNDJSON(Document(kind, r.Body))
}

// PrintStream prints a record of an endless list. JSON and NDJSON are one object per line, YAML one
// document per record; a table has the widths of the listing's header.
func (a *Printer) PrintStream(l Listing, r Record, first bool) error {
	switch a.Format() {
	case FormatJSON, FormatNDJSON, FormatName:
		return a.printLine(l.Kind, r)
	case FormatYAML:
		if err := a.WriteOut("---\n"); err != nil {
			return err
		}
		return a.PrintYAML(Document(l.Kind, r.Body))
	}
	return a.WriteOut(a.layout().streamRow(l, r, first))
}

// PrintOne prints a single record; in table format it prints the page that human writes.
func (a *Printer) PrintOne(kind string, r Record, human func(p *Page)) error {
	switch a.Format() {
	case FormatJSON:
		return a.PrintJSON(Document(kind, r.Body))
	case FormatYAML:
		return a.PrintYAML(Document(kind, r.Body))
	case FormatNDJSON, FormatName:
		return a.printLine(kind, r)
	}
	p := &Page{Style: a.OutStyle()}
	human(p)
	return a.WriteOut(p.String())
}

// PrintJSON prints a value as one indented document.
func (a *Printer) PrintJSON(v any) error {
	text, err := Marshal(v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	return a.WriteOut(string(VisibleJSON(b.Bytes())))
}

// PrintNDJSON prints a value on one line.
func (a *Printer) PrintNDJSON(v any) error {
	text, err := Marshal(v)
	if err != nil {
		return err
	}
	return a.WriteOut(string(VisibleJSON(text)) + "\n")
}

// PrintYAML prints an object as a document.
func (a *Printer) PrintYAML(o Object) error {
	text, err := yamlDocument(o)
	if err != nil {
		return err
	}
	return a.WriteOut(text)
}

// WriteOut writes to stdout, as it is.
func (a *Printer) WriteOut(s string) error {
	_, err := io.WriteString(a.Out, s)
	return err
}

// Records converts a list to records.
func Records[T any](list []T, of func(T) Record) []Record {
	records := make([]Record, len(list))
	for i, v := range list {
		records[i] = of(v)
	}
	return records
}

// Named returns a conversion of messages to records with a name and without cells, for PrintOne.
func Named[T proto.Message](name func(T) string) func(T) Record {
	return func(m T) Record { return Record{Name: name(m), Body: ProtoObject(m)} }
}

func bodies(records []Record) []Object {
	out := make([]Object, len(records))
	for i, r := range records {
		out[i] = r.Body
	}
	return out
}

// WriteRaw writes exported bytes unchanged, except to a terminal, where they are escaped.
func (a *Printer) WriteRaw(data []byte) error {
	if a.OutTerminal {
		data = VisibleJSON(data)
	}
	_, err := a.Out.Write(data)
	return err
}

// PrintFindings prints findings as plain lines in table format, without a header, because a finding
// may have several lines.
func (a *Printer) PrintFindings(kind string, records []Record) error {
	switch a.Format() {
	case FormatTable, FormatWide:
		for _, r := range records {
			if err := a.WriteOut(VisibleText(r.Cells[0]) + "\n"); err != nil {
				return err
			}
		}
		return nil
	}
	return a.PrintList(Listing{Kind: kind}, records)
}
