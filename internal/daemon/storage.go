package daemon

import (
	"context"
	"fmt"
	"log/slog"

	"palyra/internal/sqlite"
)

// reserve is what of the disk the store keeps for operators.
func (g *gateway) reserve() sqlite.ReserveOptions {
	return sqlite.ReserveOptions{Bytes: g.cfg.Storage.ReserveBytes, Changed: g.diskChanged}
}

// diskChanged logs how the disk stands. It is told when that changes, from the
// middle of a commit.
func (g *gateway) diskChanged(s sqlite.ReserveState) {
	attrs := []any{slog.Int64("free", s.Free), slog.Int64("reserve", s.Held), slog.Int64("reserve_size", s.Size)}
	switch {
	case s.Low():
		g.log.Warn("the disk that holds state_dir is nearly full: nothing begins but what operators do; make room", attrs...)
	case s.Held < s.Size:
		g.log.Warn("the reserve for operators on the disk that holds state_dir is not whole; it is filled when there is room", attrs...)
	default:
		g.log.Info("the disk that holds state_dir has room, and the reserve for operators is whole", attrs...)
	}
}

// reserveNotice says how much of the reserve is left when it is not whole.
func reserveNotice(s sqlite.ReserveState) string {
	if s.Held == s.Size {
		return ""
	}
	return fmt.Sprintf("%d of %d MiB are left of the disk's reserve for operators, which is filled when the disk has room: free some on the disk that holds state_dir", s.Held>>20, s.Size>>20)
}

// reserveLeft is the exam of the reserve.
func (p *patient) reserveLeft(context.Context) finding {
	switch {
	case p.cfg.Storage.ReserveBytes == 0:
		return doubtful("storage.reserve_bytes is 0", "When the disk is full nobody can vote, freeze or revoke; leave the setting out to have a reserve.")
	case !p.made:
		return skipped("there is no store yet to reserve room for")
	}
	held, size, err := sqlite.ReserveOf(storePath(p.cfg.StateDir), p.cfg.Storage.ReserveBytes)
	switch {
	case err != nil:
		return broken(fmt.Errorf("looking at the reserve: %w", err))
	case size == 0:
		return skipped("there is no reserve here: the disk is too small, or the system does not say how full it is")
	case held < size:
		return doubtful(fmt.Sprintf("%d of %d MiB are reserved for operators", held>>20, size>>20),
			"palyrad fills the reserve while it runs, once the disk has room.")
	}
	return fine(fmt.Sprintf("%d MiB are reserved for operators", size>>20))
}
