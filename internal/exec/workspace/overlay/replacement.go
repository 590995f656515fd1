package overlay

import (
	"encoding/hex"
	"io/fs"
	"strconv"
	"strings"

	"palyra/internal/exec/workspace"
)

// rawPath is a path of arbitrary bytes, encoded in JSON as hexadecimal.
type rawPath string

// MarshalText implements encoding.TextMarshaler.
func (p rawPath) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString([]byte(p))), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *rawPath) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	*p = rawPath(raw)
	return err
}

// fingerprint identifies a file, so that Recover recognizes it after a crash. Times are in
// nanoseconds.
type fingerprint struct {
	Ino   uint64 `json:"ino,omitempty"`
	Size  int64  `json:"size,omitempty"`
	Mtime int64  `json:"mtime,omitempty"`
}

// replacement is a part of a change set that one rename puts in place: a path in an existing
// directory, with everything below the path. The new content is built in the same directory under
// the name Temp. The rename exchanges the two, so that the old content has the name Temp
// afterwards. A directory that only changes its mode is a replacement without Temp.
type replacement struct {
	Path  rawPath     `json:"path"`
	Temp  string      `json:"temp,omitempty"`
	Was   Type        `json:"was,omitempty"`
	Is    Type        `json:"is,omitempty"`
	Fresh fingerprint `json:"fresh"`
	Old   fingerprint `json:"old"`
	// WasMode and IsMode are the modes of a directory that changes its mode.
	WasMode fs.FileMode `json:"was_mode,omitempty"`
	IsMode  fs.FileMode `json:"is_mode,omitempty"`

	// changes are the changes of the path and below it, sorted, as indexes into the change set.
	changes []int
	// children are the previous names in each directory below the path.
	children map[string][]string
}

func (r *replacement) modeOnly() bool { return r.Temp == "" }

// widens reports whether a directory gains permissions for its owner. Its mode is then set first,
// because files in it may have to be written.
func (r *replacement) widens() bool { return r.IsMode&^r.WasMode&0o300 != 0 }

// replacementsOf groups sorted changes.
func replacementsOf(changes []Change, id string) []replacement {
	var list []replacement
	tops := map[string]int{}
	for i, c := range changes {
		if top, ok := above(tops, c.Path); ok {
			list[top].add(i, c)
			continue
		}
		r := replacement{Path: rawPath(c.Path), Was: c.Was.Type, Is: c.Is.Type}
		if c.Was.Type == Dir && c.Is.Type == Dir {
			r.WasMode, r.IsMode = c.Was.Mode, c.Is.Mode
		} else {
			r.Temp = workspace.TemporaryPrefix + id + "-" + strconv.Itoa(len(list))
			r.children = map[string][]string{}
			tops[c.Path] = len(list)
		}
		r.add(i, c)
		list = append(list, r)
	}
	return list
}

// above returns the replacement that contains a path.
func above(tops map[string]int, name string) (int, bool) {
	for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
		if top, ok := tops[name[:i]]; ok {
			return top, true
		}
	}
	return 0, false
}

func (r *replacement) add(i int, c Change) {
	r.changes = append(r.changes, i)
	if c.Path != string(r.Path) && c.Was.Type != None {
		dir, base := split(c.Path)
		r.children[dir] = append(r.children[dir], base)
	}
}

// split removes the last element of a path; "" is the workspace.
func split(name string) (dir, base string) {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)], name[i+1:]
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
