package run

import (
	"context"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// Store is the journal and the rows of runs, which are written in one transaction with their
// events.
type Store interface {
	JournalReader
	Rows
	// Append makes events durable.
	Append(ctx context.Context, w Write) error
}

// JournalReader reads the journal.
type JournalReader interface {
	// Head returns the newest durable head of the journal.
	Head() journal.Head
	// Recent returns the events after a sequence number from memory, or false if it does not have
	// all of them.
	Recent(after int64) ([]journal.Event, bool)
	// Events returns a page of the events that match the filter.
	Events(ctx context.Context, f journal.Filter) ([]journal.Event, error)
	// Blob returns the blob with a digest.
	Blob(ctx context.Context, digest string) ([]byte, error)
}

// Rows stores the rows of runs together with their events.
type Rows interface {
	// Started returns the run with the principal's key; found is false if the key has no run. The
	// error for a key with another digest is IDEMPOTENCY_MISMATCH.
	Started(ctx context.Context, b Beginning) (r Record, found bool, err error)
	// Begin stores the row of a new run, which starts at the time of its event. If the principal's
	// key already has a run, that run is returned as by Started, and nothing is written.
	Begin(ctx context.Context, b Beginning) (r Record, fresh bool, err error)
	// End stores the end of a run, at the time of its event. The error is RUN_ENDED if the row
	// already has an end.
	End(ctx context.Context, r Record, w Write) (Record, error)
	// Get returns a run, or NOT_FOUND.
	Get(ctx context.Context, id string) (Record, error)
	// List returns a page of runs, newest first, and the token of the next.
	List(ctx context.Context, f Filter) ([]Record, string, error)
}

// Write becomes durable in one transaction.
type Write struct {
	Drafts []event.Draft
	// Blobs are stored by their SHA-256.
	Blobs [][]byte
	// texts are the texts of blobs, by their names in events.
	texts map[string]string
}

// addBlob adds a text as a blob, and returns its name for events.
func (w *Write) addBlob(text string) (digest string) {
	digest = canonical.Digest([]byte(text))
	w.Blobs = append(w.Blobs, []byte(text))
	if w.texts == nil {
		w.texts = make(map[string]string)
	}
	w.texts[digest] = text
	return digest
}

// mostLed bounds the blobs that are written with another write, in bytes.
const mostLed = 64 << 10

// light reports whether w may be part of another write.
func (w *Write) light() bool {
	size := 0
	for _, b := range w.Blobs {
		size += len(b)
	}
	return size <= mostLed
}

// Beginning is a new run to be stored.
type Beginning struct {
	Record Record
	// Key is the idempotency key, "" for none; Digest is the digest of the request.
	Key    string
	Digest string
	Write  Write
}

// Page sizes of List.
const (
	defaultPage = 50
	maxPage     = 500
)

// PageSize returns the page size of List for a requested size.
func PageSize(wanted int) int {
	if wanted <= 0 {
		return defaultPage
	}
	return min(wanted, maxPage)
}
