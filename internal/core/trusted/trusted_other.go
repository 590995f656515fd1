//go:build !unix

package trusted

import "io/fs"

func check(step, bool) error { return nil }

func mine(fs.FileInfo) bool { return true }
