//go:build palyraweb

package assets

import (
	"embed"
	"io/fs"
)

// dist is the output of `npm run build` in web/.
//
//go:embed all:dist
var dist embed.FS

// Built reports whether this build includes the console.
const Built = true

// Files returns the files to serve, with index.html at the top.
func Files() (fs.FS, error) { return fs.Sub(dist, "dist") }
