package command

import (
	"path/filepath"
	"strings"
	"unicode/utf8"

	"palyra/internal/core/reason"
)

// Limits of a command line.
const (
	MaxArgs     = 128
	MaxArgBytes = 128 << 10
)

// CheckArgv refuses command lines that are empty or too long, or that cannot be passed to a
// program.
func CheckArgv(argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return reason.Errorf(reason.InvalidInput, "the command line is empty")
	}
	if len(argv) > MaxArgs {
		return reason.Errorf(reason.InvalidInput, "the command line has %d arguments, but at most %d are accepted", len(argv), MaxArgs)
	}
	for i, arg := range argv {
		if len(arg) > MaxArgBytes {
			return reason.Errorf(reason.InvalidInput, "argument %d has %d bytes, but at most %d are accepted", i, len(arg), MaxArgBytes)
		}
		if strings.IndexByte(arg, 0) >= 0 || !utf8.ValidString(arg) {
			return reason.Errorf(reason.InvalidUTF8, "argument %d is not valid UTF-8 or contains a NUL", i)
		}
	}
	return nil
}

// CheckCwd returns a cleaned workspace-relative directory, "." for the root. It does not access
// the disk: whether the directory exists and is inside the workspace is checked when it is
// opened.
func CheckCwd(cwd string) (string, error) {
	if strings.IndexByte(cwd, 0) >= 0 {
		return "", reason.Errorf(reason.InvalidInput, "the working directory contains a NUL")
	}
	if cwd == "" {
		return ".", nil
	}
	if !filepath.IsLocal(cwd) {
		return "", reason.Errorf(reason.WorkspaceScope, "the working directory %q leaves the workspace", cwd)
	}
	return filepath.ToSlash(filepath.Clean(cwd)), nil
}
