//go:build !palyraweb

package assets

import (
	"embed"
	"io/fs"
)

// fallback is the page that explains how to get the console.
//
//go:embed fallback
var fallback embed.FS

// Built reports whether this build includes the console.
const Built = false

// Files returns the files to serve, with index.html at the top.
func Files() (fs.FS, error) { return fs.Sub(fallback, "fallback") }
