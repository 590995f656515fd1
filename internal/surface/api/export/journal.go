package export

import (
	"bufio"
	"bytes"
	"io"

	"palyra/internal/core/reason"
)

// journalWriter converts the NDJSON of a journal's export to another format.
type journalWriter struct {
	lines *Writer
	out   *bufio.Writer
	// rest is the incomplete last line. last is the newest complete line, which is the trailer if
	// no line follows. count is the number of complete lines.
	rest, last []byte
	count      int
}

// Journal returns a writer for the NDJSON of a journal's export. Close marks its end.
func Journal(to io.Writer, form Form) io.WriteCloser {
	if form == NDJSON {
		return passing{to}
	}
	out := bufio.NewWriterSize(to, 64<<10)
	return &journalWriter{lines: &Writer{to: out, form: form, kind: events}, out: out}
}

// passing writes NDJSON unchanged.
type passing struct{ io.Writer }

// Close implements io.Closer.
func (passing) Close() error { return nil }

// Write implements io.Writer.
func (w *journalWriter) Write(p []byte) (int, error) {
	taken := len(p)
	for {
		line, after, whole := bytes.Cut(p, []byte("\n"))
		w.rest = append(w.rest, line...)
		if !whole {
			return taken, nil
		}
		if err := w.line(w.rest); err != nil {
			return 0, err
		}
		w.rest, p = w.rest[:0], after
	}
}

// line writes the previous line, whose position is now known, and stores next.
func (w *journalWriter) line(next []byte) error {
	err := w.flush((*Writer).Record)
	w.last = append(w.last[:0], next...)
	w.count++
	return err
}

func (w *journalWriter) flush(write func(*Writer, []byte) error) error {
	switch w.count {
	case 0:
		return nil
	case 1:
		return w.lines.header(w.last)
	}
	return write(w.lines, w.last)
}

// Close writes the trailer. An export without a trailer is incomplete and yields an error.
func (w *journalWriter) Close() error {
	if len(w.rest) > 0 || w.count < 2 {
		return reason.Errorf(reason.Internal, "the export of the journal ended before its trailer")
	}
	if err := w.flush((*Writer).Trailer); err != nil {
		return err
	}
	return w.out.Flush()
}
