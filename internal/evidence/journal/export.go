package journal

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// ExportFormat names the format and its version.
const ExportFormat = "palyra-journal-export/1"

// sealTag begins the text that the seal of an export signs. The text cannot be mistaken for a
// checkpoint, which has three lines.
const sealTag = "palyra.dev/journal/export/v1"

// exportPage is the number of events read at once: a slow reader must not hold a snapshot open.
const exportPage = 512

// exportHeader is line 1.
type exportHeader struct {
	// After is the sequence number that the export begins after.
	After  int64  `json:"after"`
	Format string `json:"format"`
	// Frontier has the roots of the complete subtrees over the events up to After, largest first,
	// in hex.
	Frontier []string `json:"frontier"`
	Gateway  string   `json:"gateway"`
	// Keys is opaque data from the caller of Export: certificates and keys that verify the
	// attestations.
	Keys json.RawMessage `json:"keys"`
	Kind string          `json:"kind"`
	// PrevHash is the hash of event After, in hex; zeros for 0.
	PrevHash string `json:"prev_hash"`
	// Verifiers are the keys of checkpoints; the first one signs this export.
	Verifiers []string `json:"verifiers"`
}

// exportTrailer is the last line.
type exportTrailer struct {
	// Checkpoint is a note over all events up to the last one here.
	Checkpoint string `json:"checkpoint"`
	Count      int64  `json:"count"`
	Kind       string `json:"kind"`
	// Seal is a note over everything else.
	Seal string `json:"seal"`
	// SHA256 is over all bytes before the trailer, in hex.
	SHA256 string `json:"sha256"`
}

// sealed is the signed content of the seal.
type sealed struct {
	gateway    string
	after      int64
	count      int64
	header     [32]byte // over line 1 with its line feed
	content    [32]byte // over all bytes before the trailer
	checkpoint [32]byte // over the checkpoint note
}

func (s sealed) text() string {
	return strings.Join([]string{
		sealTag, s.gateway, strconv.FormatInt(s.after, 10), strconv.FormatInt(s.count, 10),
		hex.EncodeToString(s.header[:]), hex.EncodeToString(s.content[:]), hex.EncodeToString(s.checkpoint[:]), "",
	}, "\n")
}

// Export writes the events after a sequence number as NDJSON: a header, one line per event, and a
// trailer. It covers the events that are durable when it starts, and signs a checkpoint over them.
// keys is any JSON value for the header; nil is written as null.
func (l *Log) Export(ctx context.Context, w io.Writer, after int64, keys json.RawMessage) error {
	head, key, verifiers := l.Checkpoints.exportPoint()
	if after < 0 || after > head.Seq {
		return reason.Errorf(reason.InvalidInput, "the journal ends at %d, an export after %d is not possible", head.Seq, after)
	}
	header, err := l.exportHeader(ctx, after, keys, verifiers)
	if err != nil {
		return err
	}
	out := &exportWriter{w: bufio.NewWriterSize(w, 64<<10), sum: sha256.New()}
	if err := out.value(header); err != nil {
		return err
	}
	seal := sealed{gateway: l.Gateway(), after: after, count: head.Seq - after, header: out.digest()}
	if err := l.exportEvents(ctx, out, after, head.Seq); err != nil {
		return err
	}
	seal.content = out.digest()
	if err := l.exportTrailer(ctx, out, key, seal, head.Seq); err != nil {
		return err
	}
	if err := out.w.Flush(); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return nil
}

func (l *Log) exportHeader(ctx context.Context, after int64, keys json.RawMessage, verifiers []string) (exportHeader, error) {
	if len(keys) == 0 {
		keys = json.RawMessage("null")
	}
	prev, err := headAt(ctx, l.store, after)
	if err != nil {
		return exportHeader{}, err
	}
	h := exportHeader{
		After: after, Format: ExportFormat, Frontier: []string{}, Gateway: l.Gateway(), Keys: keys,
		Kind: "header", PrevHash: hex.EncodeToString(prev.Hash[:]), Verifiers: verifiers,
	}
	err = l.store.Tree(ctx, after, func(t *Tree) error {
		f, err := treeFrontier(t)
		for _, root := range f.roots {
			h.Frontier = append(h.Frontier, hex.EncodeToString(root[:]))
		}
		return err
	})
	return h, err
}

// exportEvents reads page by page and writes between snapshots.
func (l *Log) exportEvents(ctx context.Context, out *exportWriter, after, last int64) error {
	var page []byte
	for after < last {
		page = page[:0]
		upTo := min(after+exportPage, last)
		err := l.store.Scan(ctx, after, upTo, func(e *Event) (err error) {
			if e.Seq != after+1 {
				return corrupt(after+1, "the event is missing")
			}
			after = e.Seq
			if page, err = e.AppendLine(page); err == nil {
				page = append(page, '\n')
			}
			return err
		})
		if err != nil {
			return err
		}
		if after < upTo {
			return corrupt(after+1, "the event is missing")
		}
		if err := out.write(page); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) exportTrailer(ctx context.Context, out *exportWriter, key *Key, seal sealed, last int64) error {
	cp, err := signSize(ctx, l.store, key, last)
	if err != nil {
		return err
	}
	seal.checkpoint = sha256.Sum256([]byte(cp.Note))
	signed, err := note.Sign(&note.Note{Text: seal.text()}, key)
	if err != nil {
		return fmt.Errorf("sealing the export: %w", err)
	}
	return out.value(exportTrailer{
		Checkpoint: cp.Note, Count: seal.count, Kind: "trailer", Seal: string(signed),
		SHA256: hex.EncodeToString(seal.content[:]),
	})
}

// exportWriter hashes the bytes that it writes.
type exportWriter struct {
	w   *bufio.Writer
	sum hash.Hash
}

func (w *exportWriter) write(b []byte) error {
	w.sum.Write(b)
	if _, err := w.w.Write(b); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return nil
}

func (w *exportWriter) value(v any) error {
	line, err := canonical.Marshal(v)
	if err != nil {
		return err
	}
	return w.write(append(slices.Clip(line), '\n'))
}

func (w *exportWriter) digest() [32]byte { return [32]byte(w.sum.Sum(nil)) }
