//go:build !unix

package config

import "io/fs"

// notPrivate always returns "": the system has no mode bits, and the access list of the user's
// profile excludes other users.
func notPrivate(string, fs.FileInfo) (problem, remedy string) { return "", "" }
