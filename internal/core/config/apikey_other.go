//go:build !unix

package config

import "io/fs"

// notPrivate finds nothing here: the system has no mode bits, and the access
// list of the user's profile keeps others out.
func notPrivate(string, fs.FileInfo) (problem, remedy string) { return "", "" }
