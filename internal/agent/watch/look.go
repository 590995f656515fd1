package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"palyra/internal/agent/edit/jsonc"
	"palyra/internal/agent/files"
	"palyra/internal/core/canonical"
	"palyra/internal/core/tomledit"
)

// maxFile bounds the read part of a file: 8 MiB.
const maxFile = 8 << 20

// Look returns the state of an entry.
func Look(e Entry) State {
	f, err := os.OpenFile(e.Path, os.O_RDONLY|nonBlocking, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Missing
	}
	if err != nil {
		return Unreadable
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		return Unreadable
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return Unreadable
	}
	return e.In(text)
}

// In returns the state of an entry in a text.
func (e Entry) In(text []byte) State {
	value, err := Lookup(e.Format, text, e.Keys)
	if err != nil {
		return Unreadable
	}
	values := []json.RawMessage{value}
	if e.InList {
		if values = nil; value != nil && json.Unmarshal(value, &values) != nil {
			return Changed
		}
	}
	for _, v := range values {
		if text, err := canonical.JSON(v); err == nil && canonical.Digest(text) == e.Digest {
			return Intact
		}
	}
	return Changed
}

// Lookup returns the value at the end of keys, as JSON; nil for none.
func Lookup(format files.Format, text []byte, keys []string) (json.RawMessage, error) {
	var doc any
	var err error
	if format == files.TOML {
		table := map[string]any{}
		err, doc = tomledit.Decode(text, &table), table
	} else {
		err = jsonc.Decode(text, &doc)
	}
	if err != nil {
		return nil, fmt.Errorf("reading settings: %w", err)
	}
	for _, key := range keys {
		object, ok := doc.(map[string]any)
		if !ok {
			return nil, nil
		}
		if doc, ok = object[key]; !ok {
			return nil, nil
		}
	}
	return json.Marshal(doc)
}
