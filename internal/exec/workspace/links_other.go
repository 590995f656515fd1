//go:build !unix

package workspace

import (
	"io/fs"
	"os"
)

// hardLinks does not know: the platform's file information does not say.
func hardLinks(fs.FileInfo) uint64 { return 0 }

// identity has no more than the time of the last change.
func identity(info fs.FileInfo) Identity { return Identity{ChangedAt: info.ModTime().UnixNano()} }

// chmod does nothing: the execute bits have no meaning here.
func chmod(*os.File, fs.FileMode) error { return nil }
