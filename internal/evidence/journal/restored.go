package journal

import (
	"context"
	"encoding/json"
	"time"

	"palyra/internal/core/event"
)

// Restored is the payload of event.Restored: a gateway was restored from a backup, and the
// events after the head of the backup are lost.
type Restored struct {
	// MadeAt and Release are the time of the backup, and the release that created it.
	MadeAt  time.Time `json:"made_at"`
	Release string    `json:"release"`
	// RestoredAt is the time at which the backup was restored into the state directory.
	RestoredAt time.Time `json:"restored_at"`
	// Backup is the head of the backup, a signed checkpoint; the event comes after it.
	Backup RestoredHead `json:"backup"`
	// Newest is the newest head of the lost journal that the operator knew; nil if the operator
	// knew none.
	Newest *RestoredHead `json:"newest,omitempty"`
	// Ended counts the items that the restore ended.
	Ended RestoredEnds `json:"ended"`
	// Valid counts the items that are valid in the backup, and may have been revoked since.
	Valid RestoredValid `json:"valid"`
}

// RestoredHead is a head of a journal according to a signed checkpoint.
type RestoredHead struct {
	Size int64 `json:"size"`
	// Root is in hex; Checkpoint is the signed note.
	Root       string `json:"root"`
	Checkpoint string `json:"checkpoint"`
	// Proven is true if the note is signed by a key that the backup has.
	Proven bool `json:"proven"`
}

// RestoredEnds counts the items that a restore ended.
type RestoredEnds struct {
	Grants    int `json:"grants"`
	Cancelled int `json:"approvals_cancelled"`
	Revoked   int `json:"approvals_revoked"`
	Logins    int `json:"logins"`
}

// RestoredValid counts the credentials that are valid in a backup.
type RestoredValid struct {
	Members int `json:"members"`
	Devices int `json:"devices"`
	Tokens  int `json:"tokens"`
}

// SignHead signs a checkpoint over all events of a journal, without journaling it.
func SignHead(ctx context.Context, src Source, key *Key) (Checkpoint, error) {
	return signSize(ctx, src, key, src.Head().Seq)
}

// LastRestored returns the newest event of a restore with its payload; ok is false if the
// journal was never restored. The journal must have been verified.
func LastRestored(ctx context.Context, src Source) (e Event, r Restored, ok bool, err error) {
	page, err := src.Events(ctx, Filter{Code: string(event.Restored), Newest: true, Limit: 1})
	if err != nil || len(page) == 0 {
		return Event{}, Restored{}, false, err
	}
	r, err = ParseRestored(&page[0])
	return page[0], r, err == nil, err
}

// ParseRestored reads the payload of an event of a restore.
func ParseRestored(e *Event) (r Restored, err error) {
	if err := e.CheckSelf(); err != nil {
		return r, err
	}
	if err := json.Unmarshal(e.Payload, &r); err != nil {
		return r, corrupt(e.Seq, "the payload of the restore cannot be read: "+err.Error())
	}
	if r.Backup.Size < 1 || r.Backup.Size >= e.Seq {
		return r, corrupt(e.Seq, "the restore names a backup that does not end before it")
	}
	return r, nil
}
