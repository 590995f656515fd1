// Package export writes approvals, calls and policy reports in the supported export formats. Each
// format contains the NDJSON lines byte for byte, so that one digest covers all formats.
//
// The gateway writes every format while the lines stream, so that command line, API and console
// share one form, and cells are made harmless in one place. A trailer over the CSV columns would be
// invalid after a spreadsheet saved the file. The last column therefore contains the line that the
// trailer covers.
package export

import (
	"bytes"
	"io"
)

// Form is an export format.
type Form string

// The export formats.
const (
	NDJSON Form = "ndjson"
	JSON   Form = "json"
	CSV    Form = "csv"
)

// kind describes an exported data set.
type kind struct {
	// one is the kind of a row, list the name of the JSON list.
	one, list string
	// columns are the CSV columns between the kind of a row and its line.
	columns []column
	// sealed is true for lines that contain their own kind.
	sealed bool
}

var (
	approvals = kind{one: "approval", list: "approvals", columns: columnsOf("approval_id", "state", "severity", "created_at", "expires_at", "answered_at", "closed_at",
		"requested_by", "on_behalf_of", "prompt.tool", "prompt.summary", "prompt.arguments", "subject_type", "subject_id", "call_digest", "proposal_id", "run", "session", "votes", "missing", "grant_id", "changed_by", "note")}
	events = kind{one: "event", list: "events", sealed: true,
		columns: columnsOf("seq", "id", "at", "code", "actor", "session", "run", "subject", "payload", "hash")}
)

// Writer writes the lines of one export.
type Writer struct {
	to   io.Writer
	form Form
	kind
	// begun is true once the opening has been written, listed once the first record has been
	// written.
	begun, listed bool
}

// Approvals returns the writer of an approvals export.
func Approvals(to io.Writer, form Form) *Writer { return &Writer{to: to, form: form, kind: approvals} }

// Record writes the line of a record, with or without its line feed.
func (w *Writer) Record(line []byte) error {
	line = bytes.TrimSuffix(line, []byte("\n"))
	switch w.form {
	case CSV:
		return w.csvRow(w.one, line)
	case JSON:
		if err := w.open(nil); err != nil {
			return err
		}
		between := "\n"
		if w.listed {
			between = ",\n"
		}
		w.listed = true
		return w.write([]byte(between), line)
	}
	return w.write(line, []byte("\n"))
}

// Trailer writes the trailer, which must come last. In CSV it is the last row.
func (w *Writer) Trailer(line []byte) error {
	if w.form == JSON {
		if err := w.open(nil); err != nil {
			return err
		}
		return w.write([]byte("\n],\"trailer\":"), line, []byte("}\n"))
	}
	if !w.sealed {
		line = bytes.Join([][]byte{[]byte(`{"trailer":`), line, []byte("}")}, nil)
	}
	if w.form == CSV {
		return w.csvRow("trailer", line)
	}
	return w.write(line, []byte("\n"))
}

// header writes the header, for exports that have one.
func (w *Writer) header(line []byte) error {
	switch w.form {
	case CSV:
		return w.csvRow("header", line)
	case JSON:
		return w.open(line)
	}
	return w.write(line, []byte("\n"))
}

// open writes the start of JSON.
func (w *Writer) open(header []byte) error {
	if w.begun {
		return nil
	}
	w.begun = true
	if header == nil {
		return w.write([]byte(`{"` + w.list + `":[`))
	}
	return w.write([]byte(`{"header":`), header, []byte(",\n\""+w.list+`":[`))
}

// csvRow writes a row. A row that is not a record has its kind and its line alone.
func (w *Writer) csvRow(what string, line []byte) error {
	if !w.begun {
		w.begun = true
		if err := w.write(row(w.names())); err != nil {
			return err
		}
	}
	cells := make([]string, len(w.columns))
	if what == w.one {
		var err error
		if cells, err = members(line, w.columns); err != nil {
			return err
		}
	}
	cells = append([]string{what}, cells...)
	return w.write(row(append(cells, string(line))))
}

// names returns the column names.
func (w *Writer) names() []string {
	names := []string{"kind"}
	for _, c := range w.columns {
		names = append(names, c.name)
	}
	return append(names, "line")
}

func (w *Writer) write(parts ...[]byte) error {
	_, err := w.to.Write(bytes.Join(parts, nil))
	return err
}
