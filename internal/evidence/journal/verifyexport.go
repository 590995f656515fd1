package journal

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/canonical"
	"palyra/internal/core/text"
)

// maxLine is the maximum length in bytes of a line of an export: 64 MiB.
const maxLine = 64 << 20

// ExportError locates an error in an export.
type ExportError struct {
	// Line counts from 1.
	Line  int
	Cause error
}

// Error contains the line and, if known, the sequence number.
func (e *ExportError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Cause) }

// Unwrap returns the cause, which is a CorruptError if the line belongs to an event.
func (e *ExportError) Unwrap() error { return e.Cause }

// ExportOptions are the trusted keys, and the checkpoints with which VerifyExport compares an
// export.
type ExportOptions struct {
	// Key is the verifier key, in text form, that must have signed the export.
	Key string
	// Trust, if set, returns the keys that may have signed, given the opaque keys and the verifier
	// keys of the header. Without Key and Trust, the keys in the file are used, and
	// Summary.KeyPinned is false.
	Trust func(keys json.RawMessage, verifiers []string) (Trust, error)
	// Remembered are checkpoints that the caller saw earlier. If their size lies within the
	// export, they must agree with it.
	Remembered []Checkpoint
	// Visit, if set, is called once with the opaque keys of the header and a nil event, and then
	// with each event after its verification. It MUST NOT keep the event's payload. An error ends
	// the verification.
	Visit func(keys json.RawMessage, e *Event) error
}

// Trust has the keys of a gateway that the caller obtained independently of the verified
// export.
type Trust struct {
	// Keys are the permitted signers; if empty, the keys of the file are used.
	Keys []SigningKey
	// Pinned is true if the keys did not come from the file itself.
	Pinned bool
	// Admit is called for each rotation in the export that leads from one of Keys to a new key. An
	// error refuses the new key; nil admits all.
	Admit func(Rotation) error
}

// UnknownKeyError means that an export is signed by an unknown key.
type UnknownKeyError struct {
	// Key is the verifier key in text form.
	Key string
}

// Error returns the key.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("it is signed by the key %s, which is not known as a key of this gateway", e.Key)
}

// VerifyExport verifies an export without access to a gateway: the form of every byte, every
// event's digests and links, every checkpoint, and the seal over the whole file. The error is an
// ExportError with the first bad line.
func VerifyExport(r io.Reader, opts ExportOptions) (Summary, error) {
	v := exportReader{r: bufio.NewReaderSize(r, 256<<10), sum: sha256.New(), opts: opts}
	err := v.run()
	if err != nil {
		var located *ExportError
		if !errors.As(err, &located) {
			err = &ExportError{Line: v.line, Cause: err}
		}
	}
	return v.walk.sum, err
}

type exportReader struct {
	r    *bufio.Reader
	opts ExportOptions
	line int // of the line read last
	sum  hash.Hash

	header       exportHeader
	headerDigest [32]byte
	prev         Head
	walk         walker
}

func (v *exportReader) run() error {
	line, err := v.next()
	if err != nil {
		return err
	}
	if err := v.readHeader(line); err != nil {
		return err
	}
	for {
		line, err := v.next()
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte(`{"checkpoint":`)) {
			return v.readTrailer(line)
		}
		v.sum.Write(line)
		v.sum.Write([]byte{'\n'})
		if err := v.readEvent(line); err != nil {
			return err
		}
	}
}

// next returns the next line without its line feed.
func (v *exportReader) next() ([]byte, error) {
	v.line++
	line, err := v.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = v.longLine(bytes.Clone(line))
	}
	if errors.Is(err, io.EOF) {
		return nil, v.cutOff(len(line) > 0)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the export: %w", err)
	}
	return line[:len(line)-1], nil
}

func (v *exportReader) longLine(line []byte) ([]byte, error) {
	for {
		more, err := v.r.ReadSlice('\n')
		line = append(line, more...)
		if len(line) > maxLine {
			return nil, corrupt(v.prev.Seq+1, fmt.Sprintf("the line is longer than %d bytes", maxLine))
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (v *exportReader) cutOff(inside bool) error {
	what := "the export ends before its trailer: it was cut off"
	if inside {
		what = "the export ends inside a line: it was cut off"
	}
	return corrupt(v.prev.Seq+1, what)
}

func (v *exportReader) readHeader(line []byte) error {
	if err := decodeLine(line, &v.header); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	h := &v.header
	if h.Kind != "header" || h.Format != ExportFormat {
		return fmt.Errorf("header: want kind header and format %s, got %q and %q", ExportFormat, h.Kind, h.Format)
	}
	if err := v.startChain(); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if err := v.startKeys(); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	v.sum.Write(line)
	v.sum.Write([]byte{'\n'})
	v.headerDigest = [32]byte(v.sum.Sum(nil))
	return v.visit(nil)
}

// startChain initializes the chain and the tree at the position in the header.
func (v *exportReader) startChain() error {
	h := &v.header
	f := frontier{size: h.After}
	for _, text := range h.Frontier {
		root, err := parseHex(text)
		if err != nil {
			return fmt.Errorf("frontier: %w", err)
		}
		f.roots = append(f.roots, root)
	}
	prev, err := parseHex(h.PrevHash)
	if err != nil {
		return fmt.Errorf("prev_hash: %w", err)
	}
	if !f.valid() || (h.After == 0) != (prev == [32]byte{}) {
		return fmt.Errorf("frontier and prev_hash are not those of an export after %d", h.After)
	}
	v.prev = Head{Seq: h.After, Hash: prev}
	v.walk = walker{gateway: h.Gateway, roots: roots{base: f}, signed: h.After, remembered: v.opts.Remembered}
	v.walk.sum = Summary{Gateway: h.Gateway, Head: v.prev}
	return nil
}

// startKeys reads the header's verifier keys and determines the keys that may sign.
func (v *exportReader) startKeys() error {
	h := &v.header
	if len(h.Verifiers) == 0 {
		return errors.New("the verifier key is missing")
	}
	for _, text := range h.Verifiers {
		k, err := note.NewVerifier(text)
		if err != nil {
			return fmt.Errorf("verifier key %q: %w", text, err)
		}
		if k.Name() != h.Gateway {
			return fmt.Errorf("verifier key of %q in an export of gateway %q", k.Name(), h.Gateway)
		}
	}
	v.walk.sum.Key = h.Verifiers[0]
	if v.opts.Key != "" && v.opts.Key != h.Verifiers[0] {
		return fmt.Errorf("the export is signed by the key %s, not by the expected %s", h.Verifiers[0], v.opts.Key)
	}
	trust, loose, err := v.trust()
	if err != nil {
		return err
	}
	known, err := NewSigners(trust.Keys...)
	if err != nil {
		return err
	}
	for i := range known.list {
		known.list[i].loose = loose
	}
	// One of the known keys may be replaced by the others in the export.
	if !slices.ContainsFunc(h.Verifiers, known.knows) {
		return &ExportError{Line: 1, Cause: &UnknownKeyError{Key: h.Verifiers[0]}}
	}
	v.walk.signers, v.walk.admit = walkSigners(known, h.After), trust.Admit
	v.walk.sum.KeyPinned = v.opts.Key != "" || trust.Pinned
	return nil
}

// trust returns the caller's keys, or else the keys of the header, which have no sizes and are
// therefore loose.
func (v *exportReader) trust() (t Trust, loose bool, err error) {
	if v.opts.Trust != nil {
		if t, err = v.opts.Trust(v.header.Keys, v.header.Verifiers); err != nil || len(t.Keys) > 0 {
			return t, false, err
		}
	}
	t = Trust{Keys: make([]SigningKey, len(v.header.Verifiers)), Admit: t.Admit}
	for i, text := range v.header.Verifiers {
		t.Keys[i].Verifier = text
	}
	return t, true, nil
}

func (v *exportReader) readEvent(line []byte) error {
	e, err := ParseLine(line)
	if err != nil {
		return corrupt(v.prev.Seq+1, "the event cannot be read: "+err.Error())
	}
	if err := e.CheckAfter(v.prev); err != nil {
		return err
	}
	if err := e.CheckSelf(); err != nil {
		return err
	}
	if err := v.walk.step(linkOf(&e)); err != nil {
		return err
	}
	v.prev = e.Head()
	return v.visit(&e)
}

func (v *exportReader) visit(e *Event) error {
	if v.opts.Visit == nil {
		return nil
	}
	return v.opts.Visit(v.header.Keys, e)
}

func (v *exportReader) readTrailer(line []byte) error {
	var t exportTrailer
	if err := decodeLine(line, &t); err != nil {
		return fmt.Errorf("trailer: %w", err)
	}
	if t.Kind != "trailer" {
		return fmt.Errorf("trailer: kind is %q", t.Kind)
	}
	if err := v.checkSeal(&t); err != nil {
		return err
	}
	if err := v.checkLast(t.Checkpoint); err != nil {
		return err
	}
	if _, err := v.r.ReadByte(); !errors.Is(err, io.EOF) {
		v.line++
		return errors.New("data follows the trailer")
	}
	return v.walk.end(false)
}

// checkSeal verifies the seal's signature by the header's first key, and then all sealed parts,
// so that the error names the difference.
func (v *exportReader) checkSeal(t *exportTrailer) error {
	if !v.walk.signers.knows(v.header.Verifiers[0]) {
		return &UnknownKeyError{Key: v.header.Verifiers[0]}
	}
	signer, err := ParseKeys(v.header.Verifiers[0])
	if err != nil {
		return err
	}
	n, err := openNote(t.Seal, signer)
	if err != nil {
		return fmt.Errorf("trailer: the seal does not verify with the key in the header: %w", err)
	}
	have := sealed{
		gateway: v.header.Gateway, after: v.header.After, count: v.prev.Seq - v.header.After,
		header: v.headerDigest, content: [32]byte(v.sum.Sum(nil)), checkpoint: sha256.Sum256([]byte(t.Checkpoint)),
	}
	if t.SHA256 != hex.EncodeToString(have.content[:]) && n.Text == have.text() {
		return errors.New("trailer: sha256 does not match the preceding bytes")
	}
	if t.Count != have.count {
		return corrupt(v.prev.Seq+1, fmt.Sprintf("the trailer counts %s, there are %d", text.Plural(t.Count, "event"), have.count))
	}
	return v.compareSeal(have, n.Text)
}

// compareSeal returns an error that describes the first difference between the export and the
// seal.
func (v *exportReader) compareSeal(have sealed, text string) error {
	if have.text() == text {
		return nil
	}
	want := bytes.Split([]byte(text), []byte("\n"))
	got := bytes.Split([]byte(have.text()), []byte("\n"))
	if len(want) != len(got) {
		return errors.New("trailer: the seal has another type")
	}
	const headerPart, contentPart, checkpointPart = 4, 5, 6
	switch {
	case !bytes.Equal(want[headerPart], got[headerPart]):
		return &ExportError{Line: 1, Cause: errors.New("the seal covers another header")}
	case !bytes.Equal(want[checkpointPart], got[checkpointPart]):
		return errors.New("trailer: the seal covers another checkpoint")
	case !slices.EqualFunc(want[:headerPart], got[:headerPart], bytes.Equal):
		return corrupt(v.prev.Seq+1, "the seal covers other events: some are missing or were added")
	case !bytes.Equal(want[contentPart], got[contentPart]):
		return corrupt(v.walk.signed+1, fmt.Sprintf("the events %d to %d differ from the events that the seal covers", v.walk.signed+1, v.prev.Seq))
	}
	return errors.New("trailer: the seal does not match")
}

// checkLast verifies the trailer's checkpoint. It must cover the last event, so that an older
// checkpoint cannot hide a rollback.
func (v *exportReader) checkLast(content string) error {
	cp, err := ParseCheckpoint(content, v.header.Gateway, v.walk.signers)
	if err != nil {
		return fmt.Errorf("trailer: %w", err)
	}
	if cp.Size != v.prev.Seq {
		return corrupt(min(cp.Size, v.prev.Seq)+1, fmt.Sprintf("the trailer's checkpoint covers %s, the export ends at %d", text.Plural(cp.Size, "event"), v.prev.Seq))
	}
	if err := v.walk.checkRoot(cp, cp.Size); err != nil {
		return err
	}
	v.walk.sum.Signed = cp
	return nil
}

// decodeLine decodes a canonical JSON line into a struct. The line must equal the encoding of
// the struct.
func decodeLine(line []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("not readable: %w", err)
	}
	form, err := canonical.Marshal(into)
	if err != nil {
		return err
	}
	if !bytes.Equal(form, line) {
		return fmt.Errorf("not in canonical form at byte %d", firstDifference(form, line)+1)
	}
	return nil
}

func parseHex(text string) (h [32]byte, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(h) {
		return h, errors.New("want 64 hex digits")
	}
	return [32]byte(raw), nil
}
