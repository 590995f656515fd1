package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/statedir"
	"palyra/internal/evidence/journal"
	"palyra/internal/ops/backup"
)

// restored reports whether the gateway was restored from a backup and is not yet thawed.
func (p *subject) restored(ctx context.Context) finding {
	if !p.keysAreThere() {
		return skipped("no gateway exists yet")
	}
	list := filepath.Join(statedir.Restored(p.Settings.StateDir), backup.ValidFile)
	compare := "Compare " + list + " with later revocations, repeat them, and run `palyra thaw`."
	mark, waits, err := backup.ReadMark(p.Settings.StateDir)
	switch {
	case err != nil:
		return broken(err)
	case waits:
		return doubtful(fmt.Sprintf("restored from a backup of %s and not started since; it starts frozen", mark.MadeAt.Format(time.RFC3339)), "Start palyrad. "+compare)
	}
	r, at, thawed, err := p.lastRestored(ctx)
	switch {
	case err != nil:
		return broken(err)
	case at.IsZero():
		return fine("not restored from a backup")
	case thawed:
		return fine(fmt.Sprintf("restored from a backup of %s at %s, and thawed since", r.MadeAt.Format(time.RFC3339), at.Format(time.RFC3339)))
	}
	return doubtful(fmt.Sprintf("restored from a backup of %s at %s, and frozen", r.MadeAt.Format(time.RFC3339), at.Format(time.RFC3339)), compare)
}

// lastRestored reads the last restore from the journal; at is zero without one.
func (p *subject) lastRestored(ctx context.Context) (r journal.Restored, at time.Time, thawed bool, err error) {
	db, err := p.OpenStore(ctx)
	if err != nil {
		return r, at, false, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	e, r, found, err := journal.LastRestored(ctx, db)
	if err != nil || !found {
		return r, at, false, err
	}
	page, err := db.Events(ctx, journal.Filter{Code: string(event.Thawed), After: e.Seq, Limit: 1})
	return r, e.At, len(page) > 0, err
}
