package sqlite

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	zs "zombiezen.com/go/sqlite"

	"palyra/internal/core/reason"
)

// probeSize is the number of bytes that a probe writes. It is large enough that a disk with
// only a few free pages does not count as recovered.
const probeSize = 256 << 10

func (w *writer) healthy() error {
	if e := w.failure.Load(); e != nil {
		return e
	}
	return w.reserve.low()
}

// failed is Healthy without the measurement of the disk.
func (w *writer) failed() bool { return w.failure.Load() != nil }

// fail rolls the batch back and puts the writer in the failed state. A failed COMMIT may or may not
// have reached the disk, so the head is read again before the next write.
func (w *writer) fail(cause error) error {
	if !w.conn.AutocommitEnabled() {
		if err := w.exec("ROLLBACK"); err != nil {
			cause = errors.Join(cause, err)
		}
	}
	e := reason.Errorf(reason.JournalUnavailable, "writing the journal: %w", withFiles(cause))
	w.failure.Store(e)
	w.end.edge = nil
	return e
}

// recover is recoverLocked for callers outside a batch.
func (w *writer) recover() error {
	if w.healthy() == nil {
		return nil
	}
	w.connMu.Lock()
	defer w.connMu.Unlock()
	if w.conn == nil {
		return w.healthy()
	}
	if w.reserve != nil {
		w.reserve.look()
		w.reserve.tell()
	}
	if w.reserve.low() == nil || !w.failed() {
		if err := w.recoverLocked(); err != nil {
			return err
		}
	}
	return w.healthy()
}

// recoverLocked leaves the failed state if a probe write succeeds and the head
// can be read again.
func (w *writer) recoverLocked() error {
	if !w.failed() {
		return nil
	}
	if err := w.probe(); err != nil {
		return w.fail(err)
	}
	if err := w.load(); err != nil {
		return w.fail(err)
	}
	if err := w.noted.write(w.end.head); err != nil {
		return w.fail(err)
	}
	w.failure.Store(nil)
	return nil
}

// probe writes and deletes a row of probeSize, durably.
func (w *writer) probe() error {
	c := Conn{c: w.conn}
	for _, step := range []struct {
		query string
		args  []any
	}{
		{"BEGIN IMMEDIATE", nil},
		{"INSERT OR REPLACE INTO probe (id, pad) VALUES (1, randomblob(?1))", []any{probeSize}},
		{"COMMIT", nil},
		{"DELETE FROM probe", nil},
	} {
		if err := c.Query(step.query, nil, step.args...); err != nil {
			return fmt.Errorf("probing the disk: %w", err)
		}
	}
	return nil
}

// close closes the connection of a drained writer.
func (w *writer) close() error {
	w.connMu.Lock()
	defer w.connMu.Unlock()
	conn := w.conn
	w.conn = nil
	err := conn.Close()
	if w.noted != nil {
		err = errors.Join(err, w.noted.close())
	}
	return errors.Join(err, w.reserve.close())
}

// mostOpened is the maximum number of files that one SQLite statement opens at once: the
// database, the WAL, its index and a directory.
const mostOpened = 4

// withFiles adds the limit of open files to an SQLite error that reports only that a file cannot be
// opened. SQLite does not expose errno, so withFiles tests whether any file can be opened. The
// result is not certain: SQLite may have closed files in the meantime.
func withFiles(err error) error {
	if err == nil || zs.ErrCode(err).ToPrimary() != zs.ResultCantOpen || outOfFiles(err) {
		return err
	}
	for range mostOpened {
		f, openErr := os.Open(os.DevNull)
		if openErr == nil {
			defer f.Close()
			continue
		}
		if outOfFiles(openErr) {
			return fmt.Errorf("%w: %w", err, openErr)
		}
	}
	return err
}

func outOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
