package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

// headFile is a small file next to the store that names the newest durable event. SQLite drops
// the end of a damaged or shortened WAL without an error, so a journal that ends before the
// event in this file has lost events. The file is written after each commit but not synced, so
// it adds no wait for the disk. After a crash the journal may therefore be ahead of it.
type headFile struct{ file *os.File }

const headFormat = "palyra-head v1 %020d %s\n"

// headPath returns the path of the head file of the store at path.
func headPath(path string) string { return path + "-head" }

func openHeadFile(path string) (*headFile, error) {
	f, err := os.OpenFile(headPath(path), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, openError(headPath(path), err)
	}
	return &headFile{file: f}, nil
}

// write replaces the line in place: it always has the same length and lies in
// one sector.
func (h *headFile) write(head journal.Head) error {
	line := fmt.Appendf(nil, headFormat, head.Seq, hex.EncodeToString(head.Hash[:]))
	if _, err := h.file.WriteAt(line, 0); err != nil {
		return fmt.Errorf("noting the journal's head: %w", err)
	}
	return nil
}

// close syncs the file, so that it is exact after an orderly shutdown.
func (h *headFile) close() error { return errors.Join(h.file.Sync(), h.file.Close()) }

// readHeadFile returns the content of the head file. If the file is missing, or empty after a power
// loss, it returns the zero head, which every journal contains.
func readHeadFile(path string) (head journal.Head, err error) {
	text, err := os.ReadFile(headPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return head, nil
	}
	if err != nil {
		return head, openError(headPath(path), err)
	}
	if strings.Trim(string(text), "\x00") == "" {
		return head, nil
	}
	words := strings.Fields(string(text))
	if len(words) == 4 {
		head.Seq, _ = strconv.ParseInt(words[2], 10, 64)
		raw, _ := hex.DecodeString(words[3])
		copy(head.Hash[:], raw)
	}
	if string(text) != fmt.Sprintf(headFormat, head.Seq, hex.EncodeToString(head.Hash[:])) {
		return journal.Head{}, reason.Errorf(reason.VerificationFailed, "%s cannot be read, so the expected end of the journal is unknown", headPath(path)).
			WithRemedy("Something has damaged the state directory. Run `palyra journal verify` on a machine that remembers this gateway's checkpoints; when it finds nothing, remove the file.")
	}
	return head, nil
}

// signedSize returns the number of events that the newest verified checkpoint covers.
func signedSize(ctx context.Context, db *DB) (int64, error) {
	page, err := db.Events(ctx, journal.Filter{Code: string(event.Checkpoint), Newest: true, Limit: 1})
	if err != nil || len(page) == 0 {
		return 0, err
	}
	var p struct {
		Size int64 `json:"size"`
	}
	err = json.Unmarshal(page[0].Payload, &p)
	return p.Size, err
}

func missing(path string, head, noted journal.Head) error {
	return &journal.CorruptError{Seq: head.Seq + 1, What: fmt.Sprintf(
		"events are missing: the journal ends at %d, but %s records %d", head.Seq, headPath(path), noted.Seq)}
}

// holds checks that the journal contains the event named by the head file. Events up to the newest
// checkpoint are already verified.
func (db *DB) holds(ctx context.Context, noted journal.Head, signed int64) error {
	if noted.Seq == 0 {
		return nil
	}
	if head := db.Head(); head.Seq < noted.Seq {
		return missing(db.path, head, noted)
	}
	page, err := db.Events(ctx, journal.Filter{After: noted.Seq - 1, UpTo: noted.Seq, Limit: 1})
	if err != nil {
		return err
	}
	if len(page) == 0 || page[0].Hash != noted.Hash {
		first := min(signed+1, noted.Seq)
		return &journal.CorruptError{Seq: first, What: fmt.Sprintf("the events %d to %d differ from the events of %s", first, noted.Seq, headPath(db.path))}
	}
	return nil
}
