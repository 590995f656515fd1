package journal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
)

// AppendLine appends the canonical line of an event, without a line feed: one RFC 8785 object that
// always has all keys. The payload is included verbatim, or is null if it was erased.
func (e *Event) AppendLine(b []byte) ([]byte, error) {
	w := lineWriter{b: b}
	w.text(`{"actor":`, e.Actor)
	w.text(`,"at":`, e.At.Format(TimeFormat))
	w.text(`,"code":`, string(e.Code))
	w.hex(`,"hash":`, e.Hash[:])
	w.text(`,"id":`, e.ID)
	w.raw(`,"kind":"event","payload":`)
	if e.Payload == nil {
		w.raw("null")
	} else {
		w.b = append(w.b, e.Payload...)
	}
	w.hex(`,"payload_sha256":`, e.PayloadSHA256[:])
	w.hex(`,"prev_hash":`, e.PrevHash[:])
	w.text(`,"run":`, e.Run)
	w.raw(`,"salt":`)
	if e.Salt == nil {
		w.raw("null")
	} else {
		w.hex("", e.Salt)
	}
	w.raw(`,"seq":`)
	w.b = strconv.AppendInt(w.b, e.Seq, 10)
	w.text(`,"session":`, e.Session)
	w.text(`,"subject":`, e.Subject)
	w.raw("}")
	return w.b, w.err
}

// MarshalJSON returns the canonical line.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendLine(nil) }

// ParseLine parses the canonical line of an event. It accepts only text that AppendLine writes
// for the result. It does not check hashes.
func ParseLine(line []byte) (Event, error) {
	r := lineReader{rest: line}
	var e Event
	e.Actor = r.text(`{"actor":`)
	e.At = r.time(`,"at":`)
	e.Code = event.Code(r.text(`,"code":`))
	r.hash(`,"hash":`, &e.Hash)
	e.ID = r.text(`,"id":`)
	e.Payload = r.object(`,"kind":"event","payload":`)
	r.hash(`,"payload_sha256":`, &e.PayloadSHA256)
	r.hash(`,"prev_hash":`, &e.PrevHash)
	e.Run = r.text(`,"run":`)
	if !r.skip(`,"salt":null`) {
		var salt [SaltSize]byte
		r.hash(`,"salt":`, &salt)
		e.Salt = salt[:]
	}
	e.Seq = r.integer(`,"seq":`)
	e.Session = r.text(`,"session":`)
	e.Subject = r.text(`,"subject":`)
	r.expect("}")
	if r.err == nil && len(r.rest) > 0 {
		r.fail("the end of the line")
	}
	if r.err != nil {
		return Event{}, fmt.Errorf("byte %d: %w", len(line)-len(r.rest)+1, r.err)
	}
	return e, checkForm(&e, line)
}

// checkForm checks that a line is the canonical form of its event, which the reader cannot
// check.
func checkForm(e *Event, line []byte) error {
	if _, err := ulid.ParseStrict(e.ID); err != nil {
		return fmt.Errorf("id %q is not a ULID", e.ID)
	}
	if (e.Payload == nil) != (e.Salt == nil) {
		return errors.New("payload and salt must both be present or both be erased")
	}
	if e.Payload != nil && !canonical.Is(e.Payload) {
		return errors.New("the payload is not in canonical form")
	}
	form, err := e.AppendLine(make([]byte, 0, len(line)))
	if err != nil {
		return err
	}
	if !bytes.Equal(form, line) {
		return fmt.Errorf("byte %d: the line is not in canonical form", firstDifference(form, line)+1)
	}
	return nil
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

type lineWriter struct {
	b   []byte
	err error
}

func (w *lineWriter) raw(s string) { w.b = append(w.b, s...) }

func (w *lineWriter) text(key, value string) {
	b, err := canonical.AppendString(append(w.b, key...), value)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("encoding %q: %w", value, err)
	}
	w.b = b
}

func (w *lineWriter) hex(key string, value []byte) {
	w.b = append(append(w.b, key...), '"')
	w.b = append(hex.AppendEncode(w.b, value), '"')
}

// lineReader reads the canonical form of a line: values with literal text between them. After the
// first error its methods do nothing.
type lineReader struct {
	rest []byte
	err  error
}

func (r *lineReader) fail(want string) {
	if r.err == nil {
		r.err = fmt.Errorf("want %s", want)
	}
}

func (r *lineReader) skip(literal string) bool {
	if r.err != nil || !bytes.HasPrefix(r.rest, []byte(literal)) {
		return false
	}
	r.rest = r.rest[len(literal):]
	return true
}

func (r *lineReader) expect(literal string) {
	if !r.skip(literal) {
		r.fail(literal)
	}
}

// text reads a JSON string after a literal.
func (r *lineReader) text(literal string) string {
	r.expect(literal)
	if r.err != nil {
		return ""
	}
	end := stringEnd(r.rest)
	if end < 0 {
		r.fail("a string")
		return ""
	}
	s, err := canonical.String(r.rest[:end])
	if err != nil {
		r.fail("a string")
		return ""
	}
	r.rest = r.rest[end:]
	return s
}

// stringEnd returns the length of the JSON string at the start of b, or -1.
func stringEnd(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return -1
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

func (r *lineReader) time(literal string) time.Time {
	s := r.text(literal)
	if r.err != nil {
		return time.Time{}
	}
	t, err := time.Parse(TimeFormat, s)
	if err != nil {
		r.fail("a time such as 2006-01-02T15:04:05.000000Z")
	}
	return t.UTC()
}

func (r *lineReader) hash(literal string, h *[32]byte) {
	s := r.text(literal)
	if r.err != nil {
		return
	}
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != len(h) {
		r.fail("64 hex digits")
		return
	}
	copy(h[:], raw)
}

func (r *lineReader) integer(literal string) int64 {
	r.expect(literal)
	end := 0
	for end < len(r.rest) && r.rest[end] >= '0' && r.rest[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(string(r.rest[:end]), 10, 64)
	if err != nil || n < 1 {
		r.fail("a sequence number")
		return 0
	}
	r.rest = r.rest[end:]
	return n
}

// object reads a JSON object, or null, after a literal.
func (r *lineReader) object(literal string) []byte {
	r.expect(literal)
	if r.err != nil || r.skip("null") {
		return nil
	}
	if len(r.rest) == 0 || r.rest[0] != '{' {
		r.fail("an object or null")
		return nil
	}
	n, err := canonical.ValueLength(r.rest)
	if err != nil {
		r.fail("a JSON object")
		return nil
	}
	value := bytes.Clone(r.rest[:n])
	r.rest = r.rest[n:]
	return value
}
