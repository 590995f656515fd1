package overlay

import (
	"fmt"
	"io"
	"strings"

	"palyra/internal/core/unified"
)

// leastShown is the minimum share of a protected change in a diff, in bytes, while space remains.
const leastShown = 1 << 10

// Diff formats the change set for display in git's form, in about limit bytes at most; a line
// states how much is omitted. Protected changes come first, each below its reasons. They share
// the limit, so that a large change does not hide the following ones.
func (s Set) Diff(limit int) string {
	var b strings.Builder
	left, waiting := 0, 0
	for _, c := range s.Changes {
		if c.Protected() {
			waiting++
		}
	}
	for _, protected := range []bool{true, false} {
		for i := range s.Changes {
			c := &s.Changes[i]
			if c.Protected() != protected {
				continue
			}
			if b.Len() >= limit {
				left++
				continue
			}
			room := limit - b.Len()
			if protected {
				room = min(room, max(room/waiting, leastShown))
				waiting--
			}
			b.WriteString(cut(s.layer.diff(c), room))
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "# %d more changes are not shown\n", left)
	}
	return b.String()
}

// cut truncates a diff at a line end.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	kept := text[:limit]
	kept = kept[:strings.LastIndexByte(kept, '\n')+1]
	return kept + fmt.Sprintf("# %d more bytes of this diff are not shown\n", len(text)-len(kept))
}

// diff formats one change.
func (l *Layer) diff(c *Change) string {
	head := ""
	if c.Protected() {
		head = fmt.Sprintf("# protected: %s (%s)\n", Display(c.Path), joinClasses(c.Classes))
	}
	if c.Was.Type == Dir || c.Is.Type == Dir {
		head += dirLine(c)
	}
	was, errWas := l.before(c)
	is, errIs := l.after(c)
	if errWas != nil || errIs != nil {
		return head + fmt.Sprintf("# %s: %d bytes, then %d bytes; not shown\n", Display(c.Path), c.Was.Size, c.Is.Size)
	}
	before := unified.File{OldPath: c.Path, Old: was, OldMode: gitMode(c.Was)}
	after := unified.File{NewPath: c.Path, New: is, NewMode: gitMode(c.Is)}
	before.Old, after.New = linked(c.Was, was), linked(c.Is, is)
	switch {
	case before.OldMode == "" && after.NewMode == "":
		return head
	case before.OldMode == "":
		return head + after.Diff()
	case after.NewMode == "":
		return head + before.Diff()
	case c.Was.Type != c.Is.Type:
		return head + before.Diff() + after.Diff()
	}
	before.NewPath, before.New, before.NewMode = after.NewPath, after.New, after.NewMode
	text := before.Diff()
	if before.OldMode == before.NewMode && c.Was.Mode != c.Is.Mode {
		text += fmt.Sprintf("# mode %s, then %s\n", modeText(c.Was), modeText(c.Is))
	}
	return head + text
}

// linked returns the content that git shows for a file or a link: the target of a link is its
// content.
func linked(s State, content []byte) []byte {
	if s.Type == Symlink {
		return []byte(s.Target)
	}
	return content
}

// dirLine describes a directory change, which git cannot express.
func dirLine(c *Change) string {
	switch {
	case c.Was.Type == Dir && c.Is.Type == Dir:
		return fmt.Sprintf("# directory %s: mode %s, then %s\n", Display(c.Path), modeText(c.Was), modeText(c.Is))
	case c.Was.Type == Dir:
		return fmt.Sprintf("# directory %s is removed\n", Display(c.Path))
	}
	return fmt.Sprintf("# directory %s is made, mode %s\n", Display(c.Path), modeText(c.Is))
}

// gitMode is the mode that git records for a file or link, "" for types unknown to git.
func gitMode(s State) string {
	switch {
	case s.Type == Symlink:
		return "120000"
	case s.Type != File:
		return ""
	case s.Mode&0o100 != 0:
		return "100755"
	}
	return "100644"
}

func joinClasses(classes []Class) string {
	words := make([]string, 0, len(classes))
	for _, c := range classes {
		words = append(words, string(c))
	}
	return strings.Join(words, ", ")
}

// Look passes the current content of a file of the set to the function look. It does nothing
// for other entries and missing files.
func (s Set) Look(c Change, look func(io.Reader) error) error {
	if c.Is.Type != File {
		return nil
	}
	return control(s.layer.upper, func(dir int) error {
		fd, done, err := openUpper(dir, c.Path, readFile)
		if err != nil {
			return err
		}
		defer done()
		return look(reader(fd))
	})
}
