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

// linksAt is linksOf what stands at a path, 0 when nothing does: whatever else
// is wrong with it stops the call where it is opened.
func linksAt(root *workspace.Root, real string) int {
	info, err := root.Stat(real)
	if err != nil {
		return 0
	}
	return linksOf(info)
}
