package workspace

import (
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

const (
	// maxPath is the longest path in bytes that a call may name.
	maxPath = 4096
	// maxComponent is NAME_MAX of the usual file systems.
	maxComponent = 255
)

// checkPath refuses what cannot be a path inside a workspace whatever is on
// disk. It does not clean the path: what "link/.." means only the kernel knows.
func checkPath(p string) error {
	switch {
	case len(p) > maxPath:
		return reason.Errorf(reason.InvalidInput, "path has %d bytes, at most %d are allowed", len(p), maxPath)
	case strings.ContainsRune(p, 0), !utf8.ValidString(p):
		return reason.Errorf(reason.InvalidUTF8, "path %s holds a NUL or is not valid UTF-8", quote(p))
	case strings.HasPrefix(p, "/"), filepath.IsAbs(p), filepath.VolumeName(p) != "":
		return reason.Errorf(reason.WorkspaceScope, "path %s is absolute", quote(p)).
			WithRemedy("Name the file relative to the workspace.")
	}
	for part := range strings.SplitSeq(p, "/") {
		if len(part) > maxComponent {
			return reason.Errorf(reason.InvalidInput, "path %s: a name is longer than %d bytes", quote(p), maxComponent)
		}
	}
	return nil
}

// checkNewName refuses names that a reader would not see as what they are (text.Unseen).
func checkNewName(p string) error {
	for _, r := range p {
		if odd(r) {
			return reason.Errorf(reason.InvalidInput, "path %s holds character %U, which may not be in the name of a file that is written", quote(p), r)
		}
	}
	base := path.Base(p)
	if base == "." || base == ".." || base == "/" || strings.HasSuffix(p, "/") {
		return reason.Errorf(reason.InvalidInput, "path %s does not name a file", quote(p))
	}
	return nil
}

func odd(r rune) bool { return r == utf8.RuneError || text.Unseen(r) }

// Plain reports whether a path looks to a person like what it is: it is UTF-8 and
// has no character that a reader cannot see or tell from a space. Names that
// begin with TemporaryPrefix are not plain either.
func Plain(p string) bool {
	return utf8.ValidString(p) && !strings.ContainsFunc(p, odd) && !strings.HasPrefix(path.Base(p), TemporaryPrefix)
}

// quote writes a path for a message so that every odd character shows.
func quote(p string) string {
	const most = 200
	if len(p) > most {
		return strconv.QuoteToASCII(text.Clip(p, most)) + "..."
	}
	return strconv.QuoteToGraphic(p)
}
