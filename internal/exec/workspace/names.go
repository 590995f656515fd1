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
	// maxPath is the maximum length of a path in a call, in bytes.
	maxPath = 4096
	// maxComponent is NAME_MAX of common file systems.
	maxComponent = 255
)

// checkPath refuses strings that can never be a path inside a workspace. It does not clean the
// path: only the kernel can resolve "link/..".
func checkPath(p string) error {
	switch {
	case len(p) > maxPath:
		return reason.Errorf(reason.InvalidInput, "path has %d bytes, but at most %d are allowed", len(p), maxPath)
	case strings.ContainsRune(p, 0), !utf8.ValidString(p):
		return reason.Errorf(reason.InvalidUTF8, "path %s contains a NUL or is not valid UTF-8", quote(p))
	case strings.HasPrefix(p, "/"), filepath.IsAbs(p), filepath.VolumeName(p) != "":
		return reason.Errorf(reason.WorkspaceScope, "path %s is absolute", quote(p)).
			WithRemedy("Name the file relative to the workspace.")
	}
	for part := range strings.SplitSeq(p, "/") {
		if len(part) > maxComponent {
			return reason.Errorf(reason.InvalidInput, "path %s has a name longer than %d bytes", quote(p), maxComponent)
		}
	}
	return nil
}

// checkNewName refuses names with invisible characters (text.Unseen).
func checkNewName(p string) error {
	for _, r := range p {
		if odd(r) {
			return reason.Errorf(reason.InvalidInput, "path %s contains the character %U, which is not allowed in the name of a new file", quote(p), r)
		}
	}
	base := path.Base(p)
	if base == "." || base == ".." || base == "/" || strings.HasSuffix(p, "/") {
		return reason.Errorf(reason.InvalidInput, "path %s does not name a file", quote(p))
	}
	return nil
}

func odd(r rune) bool { return r == utf8.RuneError || text.Unseen(r) }

// Plain reports whether a path is displayed unambiguously. Such a path is valid UTF-8 and has
// no characters that are invisible, look like a space, or look like an ASCII letter of the same
// word. Names that begin with TemporaryPrefix are not plain.
func Plain(p string) bool {
	return utf8.ValidString(p) && !strings.ContainsFunc(p, odd) && text.Lookalikes(p) == nil && !strings.HasPrefix(path.Base(p), TemporaryPrefix)
}

// quote formats a path for a message with all unusual characters escaped.
func quote(p string) string {
	const most = 200
	if len(p) > most {
		return strconv.QuoteToASCII(text.Clip(p, most)) + "..."
	}
	return strconv.QuoteToGraphic(p)
}
