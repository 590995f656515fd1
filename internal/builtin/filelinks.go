package builtin

import (
	"math"

	"palyra/internal/workspace"
)

// linksOf is how many names a file has, 0 for what is no file and where the
// platform does not say.
func linksOf(info workspace.Info) int {
	if info.Kind != workspace.File {
		return 0
	}
	return int(min(info.Links, math.MaxInt32))
}
