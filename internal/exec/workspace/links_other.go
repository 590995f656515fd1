//go:build !unix

package workspace

import (
	"io/fs"
	"os"
)

// hardLinks returns 0, because the platform's file information has no link count.
func hardLinks(fs.FileInfo) uint64 { return 0 }

// identity contains only the time of the last change.
func identity(info fs.FileInfo) Identity { return Identity{ChangedAt: info.ModTime().UnixNano()} }

// chmod does nothing, because execute bits do not exist on this platform.
func chmod(*os.File, fs.FileMode) error { return nil }
