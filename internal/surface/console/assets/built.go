//go:build palyraweb

package assets

import (
	"embed"
	"io/fs"
)

// dist is what `npm run build` in web/ wrote.
//
//go:embed all:dist
var dist embed.FS

// Built reports whether this build has the console.
const Built = true

// Files are the files to serve, with index.html at the top.
func Files() (fs.FS, error) { return fs.Sub(dist, "dist") }
