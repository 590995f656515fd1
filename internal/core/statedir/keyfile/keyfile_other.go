//go:build !unix

package keyfile

import (
	"io/fs"
	"os"
)

// private and owned check nothing here: the system has no mode bits, and the access list of the
// user's profile excludes other users.
func private(string, fs.FileInfo, string) error { return nil }

func owned(string, fs.FileInfo) error { return nil }

// SyncDir does nothing here: directories cannot be synced.
func SyncDir(string) error { return nil }

// KeepOwner does nothing here: a new file inherits the access list of its directory.
func KeepOwner(*os.File, fs.FileInfo) error { return nil }
