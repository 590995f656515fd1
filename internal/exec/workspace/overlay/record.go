package overlay

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"palyra/internal/core/reason"
)

// record is a change set that is being written to its History.
type record struct {
	dir     string
	content *os.File
	// offset is the current size of content.
	offset int64
}

// begin records the planned changes before any of them is made.
func (h History) begin(m manifest, diff string) (*record, error) {
	dir, err := h.dir(m.Workspace, m.ID)
	if err != nil {
		return nil, err
	}
	fresh := filepath.Join(filepath.Dir(dir), ".new-"+m.ID)
	if err := os.MkdirAll(fresh, 0o700); err != nil {
		return nil, failure("making the record of", m.ID, err)
	}
	err = errors.Join(writeJSON(fresh, "manifest.json", m), writeJSON(fresh, "summary.json", m.Summary), writeSynced(fresh, "diff.txt", []byte(diff)), syncDir(fresh))
	if err == nil {
		err = os.Rename(fresh, dir)
	}
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = reason.Errorf(reason.AlreadyExists, "the change set %s already exists", quote(m.ID))
		}
		return nil, errors.Join(failure("writing the record of", m.ID, err), os.RemoveAll(fresh))
	}
	content, err := os.OpenFile(filepath.Join(dir, "content"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, failure("writing the record of", m.ID, err)
	}
	return &record{dir: dir, content: content}, syncDir(filepath.Dir(dir))
}

// Write appends to the kept content.
func (r *record) Write(p []byte) (int, error) {
	n, err := r.content.Write(p)
	r.offset += int64(n)
	return n, err
}

// prepared records the fingerprints of the files, so that Recover can identify them after a
// crash.
func (r *record) prepared(replacements []replacement) error {
	err := errors.Join(r.content.Sync(), writeJSON(r.dir, "prepared.json", replacements))
	if err == nil {
		err = r.setState(recordPrepared)
	}
	return failure("writing the record of", filepath.Base(r.dir), err)
}

func (r *record) setState(s RecordState) error { return setState(r.dir, s) }

func setState(dir string, s RecordState) error {
	err := writeSynced(dir, "state.new", []byte(s))
	if err == nil {
		err = os.Rename(filepath.Join(dir, "state.new"), filepath.Join(dir, "state"))
	}
	if err == nil {
		err = syncDir(dir)
	}
	return failure("writing the state of", filepath.Base(dir), err)
}

func (r *record) close() { r.content.Close() }

func writeJSON(dir, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeSynced(dir, name, text)
}

func writeSynced(dir, name string, text []byte) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// prune deletes the oldest change sets of a workspace beyond the limits. A change set that a
// crash interrupted stays until Recover has handled it.
func (h History) prune(workspace string) error {
	all, err := h.all(workspace)
	if err != nil {
		return err
	}
	var failed []error
	total := int64(0)
	for i, s := range all {
		total += max(s.Kept, 0)
		final := s.State == RecordCommitted || s.State == RecordUndone
		if i < keptSets && total <= keptBytes || !final {
			continue
		}
		dir, err := h.dir(workspace, s.ID)
		if err == nil {
			err = os.RemoveAll(dir)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// replaced opens the content that a change set replaced.
func (h History) replaced(m manifest) (*os.File, error) {
	dir, err := h.dir(m.Workspace, m.ID)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, "content"))
	return f, failure("reading the content replaced by", m.ID, err)
}
