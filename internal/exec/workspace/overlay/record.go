package overlay

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"palyra/internal/core/reason"
)

// record is a change set on its way into its History.
type record struct {
	dir     string
	content *os.File
	// offset is the size of content.
	offset int64
}

// begin writes down what is about to be done, before anything is.
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
			err = reason.Errorf(reason.AlreadyExists, "a change set %s is kept already", quote(m.ID))
		}
		return nil, errors.Join(failure("writing the record of", m.ID, err), os.RemoveAll(fresh))
	}
	content, err := os.OpenFile(filepath.Join(dir, "content"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, failure("writing the record of", m.ID, err)
	}
	return &record{dir: dir, content: content}, syncDir(filepath.Dir(dir))
}

// Write adds to the content that is kept.
func (r *record) Write(p []byte) (int, error) {
	n, err := r.content.Write(p)
	r.offset += int64(n)
	return n, err
}

// prepared writes down which files are which, so that a crash can be undone.
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

// prune drops the oldest change sets of a workspace beyond what is kept. One
// that a crash interrupted stays until Recover has dealt with it.
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

// replaced reads the content that a change set replaced.
func (h History) replaced(m manifest) (*os.File, error) {
	dir, err := h.dir(m.Workspace, m.ID)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, "content"))
	return f, failure("reading what was replaced by", m.ID, err)
}
