package run

import (
	"context"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// Store is the journal, and the rows of runs, which are written in one transaction
// with their events.
type Store interface {
	// Head is the newest durable head of the journal.
	Head() journal.Head
	// Recent returns the events after a sequence number from memory, or false
	// when it does not hold them all.
	Recent(after int64) ([]journal.Event, bool)
	// Events returns a page of the events that match the filter.
	Events(ctx context.Context, f journal.Filter) ([]journal.Event, error)
	// Blob returns what is stored under a digest.
	Blob(ctx context.Context, digest string) ([]byte, error)

	// Started returns the run that the principal's key has; found is false when
	// it has none. A key with another digest is IDEMPOTENCY_MISMATCH.
	Started(ctx context.Context, b Beginning) (r Record, found bool, err error)
	// Begin stores the row of a new run, which starts at the time of its
	// event. When the principal's key has a run already, that run is returned
	// as by Started, and nothing is written.
	Begin(ctx context.Context, b Beginning) (r Record, fresh bool, err error)
	// Append makes events durable.
	Append(ctx context.Context, w Write) error
	// End stores how a run ended, which is at the time of its event. It is
	// RUN_ENDED when the row says so already.
	End(ctx context.Context, r Record, w Write) (Record, error)
	// Get returns a run, or NOT_FOUND.
	Get(ctx context.Context, id string) (Record, error)
	// List returns a page of runs, newest first, and the token of the next.
	List(ctx context.Context, f Filter) ([]Record, string, error)
}

// Write is what becomes durable in one transaction.
type Write struct {
	Drafts []event.Draft
	// Blobs are stored by their SHA-256.
	Blobs [][]byte
	// texts are the blobs that an event names instead of a text, by what it names.
	texts map[string]string
}

// addBlob gives a text to a blob, and returns what an event names it by.
func (w *Write) addBlob(text string) (digest string) {
	digest = canonical.Digest([]byte(text))
	w.Blobs = append(w.Blobs, []byte(text))
	if w.texts == nil {
		w.texts = make(map[string]string)
	}
	w.texts[digest] = text
	return digest
}

// mostLed bounds the blobs that become durable with another's write, in bytes.
const mostLed = 64 << 10

// light reports whether w may be a part of another write.
func (w *Write) light() bool {
	size := 0
	for _, b := range w.Blobs {
		size += len(b)
	}
	return size <= mostLed
}

// Beginning is a run to be stored.
type Beginning struct {
	Record Record
	// Key is the idempotency key, "" for none; Digest is of what was asked.
	Key    string
	Digest string
	Write  Write
}

// Page sizes of List.
const (
	defaultPage = 50
	maxPage     = 500
)

// PageSize is how many runs a page of List has, for a wanted size.
func PageSize(wanted int) int {
	if wanted <= 0 {
		return defaultPage
	}
	return min(wanted, maxPage)
}
