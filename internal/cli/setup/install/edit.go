package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"palyra/internal/agent/edit"
	"palyra/internal/agent/edit/jsonc"
	"palyra/internal/agent/files"
	"palyra/internal/agent/watch"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tomledit"
)

// Edit is a planned change of a file.
type Edit struct {
	Owner string
	// File is the file before the change.
	File *edit.File
	// After is the new content.
	After []byte
	// Mode is the new permissions, 0 to keep them.
	Mode fs.FileMode
	// Whole is true if only Palyra uses the file.
	Whole   bool
	Entries []Entry
	// secret is true if the content must not be displayed.
	secret bool
}

// Changes reports whether the edit changes the file.
func (e *Edit) Changes() bool {
	return !e.File.Exists() || !bytes.Equal(e.File.Text, e.After) || e.Mode != 0 && e.Mode != e.File.Mode()
}

// Begin plans a change of a file that belongs below root.
func Begin(owner, path, root string) (*Edit, error) {
	f, err := edit.Read(path, root)
	if err != nil {
		return nil, err
	}
	return &Edit{Owner: owner, File: f, After: bytes.Clone(f.Text)}, nil
}

// cannotEdit returns an error with the file, and the position in it that the edit reports.
func (e *Edit) cannotEdit(err error) error {
	return reason.Errorf(reason.ConfigInvalid, "%s:%w", e.File.Path, err).
		WithRemedy("Correct the file, or make the change by hand; nothing was written.")
}

// blank is an empty JSON document.
var blank = []byte("{}\n")

// AddToList adds a value to a list in a JSON file, unless it is there already.
func (e *Edit) AddToList(value any, mark string, keys ...string) error {
	sum, err := canonical.DigestOf(value)
	if err != nil {
		return err
	}
	entry := Entry{Format: files.JSON, Keys: keys, List: true, Digest: sum, Mark: mark, Made: len(keys)}
	text := e.After
	if len(bytes.TrimSpace(text)) == 0 {
		text = blank
	}
	// An earlier entry with another address or limit is replaced.
	if text, err = takeOut(text, entry); err != nil {
		return e.cannotEdit(err)
	}
	edited, made, err := jsonc.Insert(text, jsonc.Keys(keys...).With(jsonc.End()), value)
	if err != nil {
		return e.cannotEdit(err)
	}
	entry.Made = min(len(made)-1, len(keys))
	e.After, e.Entries = edited, append(e.Entries, entry)
	return nil
}

// SetTOML sets a key of a TOML file.
func (e *Edit) SetTOML(value any, keys ...string) error {
	sum, err := canonical.DigestOf(value)
	if err != nil {
		return err
	}
	old, err := tomlValue(e.After, keys)
	if err != nil {
		return e.cannotEdit(err)
	}
	edited, made, err := tomledit.Set(e.After, keys, value)
	if err != nil {
		return e.cannotEdit(err)
	}
	entry := Entry{Format: files.TOML, Keys: keys, Digest: sum, Made: len(keys) - 1, Old: old}
	if made != nil {
		entry.Made = len(made) - 1
	}
	e.After, e.Entries = edited, append(e.Entries, entry)
	return nil
}

// tomlValue returns the value of a key as JSON; "" for none.
func tomlValue(text []byte, keys []string) (string, error) {
	raw, err := watch.Lookup(files.TOML, text, keys)
	return string(raw), err
}

// AppendTOML adds a table to a list of tables.
func (e *Edit) AppendTOML(mark string, keys []string, pairs ...tomledit.Pair) error {
	value := map[string]any{}
	for _, p := range pairs {
		value[p.Key] = p.Value
	}
	sum, err := canonical.DigestOf(value)
	if err != nil {
		return err
	}
	entry := Entry{Format: files.TOML, Keys: keys, List: true, Digest: sum, Mark: mark}
	text, err := takeOut(e.After, entry)
	if err != nil {
		return e.cannotEdit(err)
	}
	if text, err = tomledit.AppendTable(text, keys, pairs...); err != nil {
		return e.cannotEdit(err)
	}
	e.After, e.Entries = text, append(e.Entries, entry)
	return nil
}

// Apply makes a planned change: it records the change first.
func (b *Book) Apply(e *Edit) error {
	if !e.Changes() {
		return nil
	}
	if err := b.MakeDirs(filepath.Dir(e.File.Path)); err != nil {
		return err
	}
	b.note(e)
	if err := b.Step("noted "+e.File.Path, b.Save); err != nil {
		return err
	}
	return b.Step("wrote "+e.File.Path, func() error { return e.File.Write(e.After, e.Mode) })
}

// note records a planned change of a file.
func (b *Book) note(e *Edit) {
	now := e.File.Original(e.After)
	i := slices.IndexFunc(b.Files, func(c Change) bool { return c.Path == e.File.Path })
	if i < 0 {
		b.Files = append(b.Files, Change{Original: now, Owner: e.Owner, Whole: e.Whole, Entries: e.Entries})
		return
	}
	c := &b.Files[i]
	switch now.Was {
	case c.Is:
	case c.Was: // recorded, but not done
		c.Entries = nil
	default:
		c.Edited = true
	}
	c.Is = now.Is
	for _, entry := range e.Entries {
		j := slices.IndexFunc(c.Entries, func(o Entry) bool {
			return slices.Equal(o.Keys, entry.Keys) && o.List == entry.List && (!o.List || o.Digest == entry.Digest || o.Mark != "" && o.Mark == entry.Mark)
		})
		switch {
		case j < 0:
			c.Entries = append(c.Entries, entry)
		default: // keep the first one, which has the created and replaced values
			c.Entries[j].Digest = entry.Digest
		}
	}
}

// Undo reverts the changes of an owner.
func (b *Book) Undo(owner string) (done []Undone, err error) {
	for _, c := range slices.Backward(slices.Clone(b.Files)) {
		if c.Owner != owner {
			continue
		}
		u := Undone{Path: c.Path}
		step := func() (err error) {
			u.How, err = c.undo()
			return err
		}
		if err := b.Step("undid "+c.Path, step); err != nil {
			return done, err
		}
		b.Files = slices.DeleteFunc(b.Files, func(o Change) bool { return o.Path == c.Path })
		if err := b.Step("forgot "+c.Path, b.Save); err != nil {
			return done, err
		}
		done = append(done, u)
	}
	return done, nil
}

// Undone is a file and the result of its revert.
type Undone struct {
	Path string
	How  How
}

// How describes how a file was reverted.
type How string

// The ways.
const (
	// Restored means that the file is byte for byte as before, and Removed that it did not exist
	// before. Cleaned means that it changed since then and Palyra's entries were removed, and
	// Untouched that it contained none of them.
	Restored  How = "as before"
	Removed   How = "removed"
	Cleaned   How = "was changed since, and is without Palyra's entries"
	Untouched How = "had nothing of Palyra"
)

// undo puts a file back.
func (c Change) undo() (How, error) {
	f, err := c.Read()
	if err != nil {
		return "", err
	}
	edited := c.Edited || c.Original.Edited(f)
	switch {
	case !f.Exists() || !c.Existed && f.Exists() && len(f.Text) == 0:
		return Removed, f.Remove()
	case !c.Existed && (c.Whole || !edited):
		return Removed, f.Remove()
	case !edited:
		return Restored, c.Restore(f)
	}
	text, how := f.Text, Cleaned
	for _, entry := range slices.Backward(c.Entries) {
		if text, err = takeOut(text, entry); err != nil {
			return "", fmt.Errorf("taking Palyra's entries out of %s: %w", c.Path, err)
		}
	}
	switch {
	case !c.Existed && isBlank(text):
		return Removed, f.Remove()
	case bytes.Equal(text, f.Text):
		how = Untouched
		if !c.Existed || f.Mode() == c.Mode {
			return how, nil
		}
	}
	return how, f.Write(text, c.Mode)
}

// isBlank reports whether a file has no content.
func isBlank(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) == 0 || bytes.Equal(text, bytes.TrimSpace(blank))
}

// takeOut removes an entry from a text, with the containers that were created for it and are empty.
func takeOut(text []byte, e Entry) ([]byte, error) {
	if e.Format == files.TOML {
		return takeOutTOML(text, e)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return text, nil
	}
	raw, err := jsonc.Raw(text, jsonc.Keys(e.Keys...))
	if err != nil || raw == nil {
		return text, err
	}
	var list []json.RawMessage
	if err := jsonc.Decode(raw, &list); err != nil {
		return text, nil // not a list any more, so it contains no entry
	}
	for i, one := range slices.Backward(list) {
		if !e.is(one) {
			continue
		}
		if text, err = jsonc.Remove(text, jsonc.Keys(e.Keys...).With(jsonc.Index(i))); err != nil {
			return nil, err
		}
	}
	for n := len(e.Keys); n > e.Made; n-- {
		raw, err := jsonc.Raw(text, jsonc.Keys(e.Keys[:n]...))
		var left any
		if err != nil || raw == nil || jsonc.Decode(raw, &left) != nil || !isEmpty(left) {
			break
		}
		if text, err = jsonc.Remove(text, jsonc.Keys(e.Keys[:n]...)); err != nil {
			return nil, err
		}
	}
	return text, nil
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// is reports whether a value is the entry, possibly modified.
func (e Entry) is(value []byte) bool {
	if e.Mark != "" && bytes.Contains(value, []byte(e.Mark)) {
		return true
	}
	text, err := canonical.JSON(value)
	return err == nil && canonical.Digest(text) == e.Digest
}

func takeOutTOML(text []byte, e Entry) ([]byte, error) {
	now, err := tomlValue(text, e.Keys)
	if err != nil || now == "" {
		return text, err
	}
	if e.List {
		var list []json.RawMessage
		if json.Unmarshal([]byte(now), &list) != nil {
			return text, nil
		}
		for i, one := range slices.Backward(list) {
			if e.is(one) {
				return tomledit.RemoveTable(text, e.Keys, i)
			}
		}
		return text, nil
	}
	if sum, err := canonical.JSON([]byte(now)); err != nil || canonical.Digest(sum) != e.Digest {
		return text, err // replaced by another program since
	}
	if e.Old != "" {
		var old any
		if err := json.Unmarshal([]byte(e.Old), &old); err != nil {
			return nil, err
		}
		edited, _, err := tomledit.Set(text, e.Keys, old)
		return edited, err
	}
	edited, err := tomledit.Remove(text, e.Keys)
	for n := len(e.Keys) - 1; err == nil && n > e.Made; n-- {
		left, _ := tomlValue(edited, e.Keys[:n])
		if left != "{}" {
			break
		}
		less, err := tomledit.Remove(edited, e.Keys[:n])
		if err != nil {
			break // an empty table inside another line stays
		}
		edited = less
	}
	return edited, err
}

// SetTOMLIfMissing sets a key of a TOML file if it is missing.
func (e *Edit) SetTOMLIfMissing(value any, keys ...string) error {
	there, err := watch.Lookup(files.TOML, e.After, keys)
	if err != nil {
		return e.cannotEdit(err)
	}
	if there != nil {
		return nil
	}
	return e.SetTOML(value, keys...)
}

// MakeDirs creates a directory with its parents, each recorded before it is created.
func (b *Book) MakeDirs(dir string) error {
	return edit.MakeDirs(dir, 0o700, func(dir string) error {
		b.addDir(dir)
		return b.Step("noted "+dir, b.Save)
	})
}
