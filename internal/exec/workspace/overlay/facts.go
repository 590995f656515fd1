package overlay

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"palyra/internal/core/canonical"
	"palyra/internal/core/text"
)

// Facts summarize a change set.
type Facts struct {
	Added, Modified, Deleted int
	// Bytes is the total size of the added and modified files.
	Bytes int64
	// Protected are the paths of protected changes, sorted, with odd
	// characters quoted.
	Protected []string
	// Classes are the reasons for the protection, sorted and without duplicates.
	Classes []string
	// Top are the top-level directories with changes, "." for the workspace's own, sorted and
	// without duplicates, with unusual characters quoted. A directory with capital letters is
	// also listed with folded letters, so that it cannot bypass a rule about a name on a file
	// system that folds case.
	Top []string
}

// Facts counts the changes.
func (s Set) Facts() Facts {
	var f Facts
	for _, c := range s.Changes {
		switch c.Op() {
		case Added:
			f.Added++
		case Modified:
			f.Modified++
		default:
			f.Deleted++
		}
		f.Bytes += c.Is.Size
		f.Top = append(f.Top, c.top()...)
		if !c.Protected() {
			continue
		}
		f.Protected = append(f.Protected, Display(c.Path))
		for _, class := range c.Classes {
			f.Classes = append(f.Classes, string(class))
		}
	}
	slices.Sort(f.Protected)
	slices.Sort(f.Classes)
	f.Classes = slices.Compact(f.Classes)
	slices.Sort(f.Top)
	f.Top = slices.Compact(f.Top)
	return f
}

// top returns the top-level directory that contains the change, and its folded name. A top-level
// directory contains itself; a file, or a link in its place, does not.
func (c Change) top() []string {
	name, _, inner := strings.Cut(c.Path, "/")
	if !inner && (c.Path == "." || c.Was.Type != Dir && c.Was.Type != None || c.Is.Type != Dir && c.Is.Type != None) {
		return []string{"."}
	}
	return []string{Display(name), Display(text.FoldCase(name))}
}

// entry is one change as Root digests it and manifests store it. Empty members are omitted.
type entry struct {
	// Path is the path; PathHex replaces it if the path is not UTF-8.
	Path    string `json:"path,omitempty"`
	PathHex string `json:"path_hex,omitempty"`
	Kind    Op     `json:"kind"`
	// Type, Mode, Size, Is and Target describe the current state; the other members describe the
	// previous state.
	Type         Type    `json:"type,omitempty"`
	Mode         string  `json:"mode,omitempty"`
	Size         int64   `json:"size,omitempty"`
	Is           string  `json:"is,omitempty"`
	Target       string  `json:"target,omitempty"`
	TargetHex    string  `json:"target_hex,omitempty"`
	WasType      Type    `json:"was_type,omitempty"`
	WasMode      string  `json:"was_mode,omitempty"`
	WasSize      int64   `json:"was_size,omitempty"`
	Was          string  `json:"was,omitempty"`
	WasTarget    string  `json:"was_target,omitempty"`
	WasTargetHex string  `json:"was_target_hex,omitempty"`
	Class        []Class `json:"class,omitempty"`
}

func entryOf(c Change) entry {
	e := entry{
		Kind: c.Op(), Class: c.Classes,
		Type: c.Is.Type, Mode: modeText(c.Is), Size: c.Is.Size, Is: c.Is.SHA256,
		WasType: c.Was.Type, WasMode: modeText(c.Was), WasSize: c.Was.Size, Was: c.Was.SHA256,
	}
	e.Path, e.PathHex = spelled(c.Path)
	e.Target, e.TargetHex = spelled(c.Is.Target)
	e.WasTarget, e.WasTargetHex = spelled(c.Was.Target)
	return e
}

// spelled returns a string either as JSON text or, if that is impossible, in hexadecimal.
func spelled(s string) (plain, hexadecimal string) {
	if utf8.ValidString(s) {
		return s, ""
	}
	return "", hex.EncodeToString([]byte(s))
}

// modeText formats permission bits as four octal digits. A link has none.
func modeText(s State) string {
	if s.Type == None || s.Type == Symlink {
		return ""
	}
	return fmt.Sprintf("%04o", uint32(s.Mode))
}

// Root is the digest of the change set, "sha256:<hex>" over the canonical JSON (RFC 8785) of its
// changes, as docs/format/changeset.md defines it.
func (s Set) Root() string { return s.root }

// NewSet digests changes, which must be sorted by path and classified.
func NewSet(workspace string, changes []Change) (Set, error) {
	root, err := canonical.DigestOf(entries(changes))
	return Set{Changes: changes, Workspace: workspace, root: root}, err
}

func entries(changes []Change) []entry {
	all := make([]entry, 0, len(changes))
	for _, c := range changes {
		all = append(all, entryOf(c))
	}
	return all
}
