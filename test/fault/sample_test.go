//go:build linux

package fault

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
)

// sample is a gateway whose journal the tests damage: stopped is its state after an orderly
// stop, killed its state after a later SIGKILL, with a WAL.
type sample struct {
	stopped, killed *daemon
	// head is the last sequence number in the journal of killed.
	head int64
}

var sampled struct {
	once sync.Once
	sample
}

// theSample creates the sample once. All its processes have ended when it returns.
func theSample(t *testing.T) sample {
	t.Helper()
	sampled.once.Do(func() {
		d := prepare(t)
		d.Dir = filepath.Join(programs, "sample")
		d.Start()
		l := d.begin(4, "old")
		l.ran(t, 60)
		told := l.end()
		succeeded(t, told...)
		d.Stop()
		sampled.stopped = d.copyTo(t, filepath.Join(programs, "stopped"))
		d.Start()
		l = d.begin(4, "new")
		l.ran(t, 20)
		told = append(told, l.end()...)
		d.Kill()
		sampled.killed = d.copyTo(t, filepath.Join(programs, "killed"))
		d.Start()
		d.Stop()
		d.holds(told)
		_, sampled.head = sampled.killed.digest(t)
	})
	if sampled.head < 400 {
		t.Fatalf("the sample has %d events; it was not made", sampled.head)
	}
	return sampled.sample
}

// stateIn returns a state directory without its socket, which cannot be copied usefully.
func stateIn(dir string) fs.FS { return withoutSockets{os.DirFS(dir)} }

type withoutSockets struct{ fs.FS }

// ReadDir implements fs.ReadDirFS.
func (f withoutSockets) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(list, func(e fs.DirEntry) bool { return e.Type()&fs.ModeSocket != 0 }), err
}

// ReadLink implements fs.ReadLinkFS.
func (f withoutSockets) ReadLink(name string) (string, error) { return fs.ReadLink(f.FS, name) }

// Lstat implements fs.ReadLinkFS.
func (f withoutSockets) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(f.FS, name) }

// copyTo copies the state directory of a stopped palyrad into a new directory. A palyrad that
// the copy starts has the same configuration.
func (d *daemon) copyTo(t *testing.T, dir string) *daemon {
	t.Helper()
	at := *d.Palyrad
	at.T, at.Dir, at.State = t, dir, filepath.Join(dir, "state")
	c := &daemon{&at, d.view}
	must.Do(t, os.CopyFS(c.State, stateIn(d.State)))
	private(t, c.State)
	return c
}

// fork returns a separate copy for one test, which may start it.
func (d *daemon) fork(t *testing.T) *daemon {
	t.Helper()
	c := prepare(t)
	must.Do(t, os.CopyFS(c.State, stateIn(d.State)))
	private(t, c.State)
	return c
}

// digest returns a digest over every event of the journal, without verifying it.
func (d *daemon) digest(t *testing.T) (sum [32]byte, head int64) {
	t.Helper()
	db := must.Get(sqlite.OpenReadOnly(t.Context(), d.store()))(t)
	all := sha256.New()
	err := db.Scan(t.Context(), 0, db.Head().Seq, func(e *journal.Event) error {
		line, err := e.AppendLine(nil)
		all.Write(line)
		return err
	})
	head = db.Head().Seq
	must.Do(t, errors.Join(err, db.Close(t.Context())))
	return [32]byte(all.Sum(nil)), head
}
