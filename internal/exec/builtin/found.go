package builtin

import (
	"math"

	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace"
)

// finder judges the files that a call finds below its path. Each is judged by
// itself, as a rule about a path must not be escaped by naming a directory
// above it.
type finder struct {
	call tool.Call
	root *workspace.Root
	risk int
}

// mayUse asks whether the tool may use an entry: as if the call had named it.
func (f finder) mayUse(info workspace.Info) bool {
	return f.call.MayRead(tool.FileAccess{
		Tool: f.call.Proposal.Tool.Name, Input: f.call.Proposal.Input, Facts: fileFacts(f.root.Name(), info.Path, linksOf(info), f.risk),
	})
}

// mayRead asks whether fs.read might return the file: what a rule keeps from
// fs.read is not to be had by looking for it.
func (f finder) mayRead(info workspace.Info) bool {
	return f.call.MayRead(readAccess(f.root.Name(), info.Path, linksOf(info)))
}

// readAccess returns the fs.read call of one file with that number of hard links.
func readAccess(in, real string, links int) tool.FileAccess {
	input, _ := canonical.Marshal(target{Path: real, Workspace: in}) // encoding two strings cannot fail
	return tool.FileAccess{Tool: fsReadName, Input: input, Facts: fileFacts(in, real, links, riskRead)}
}

// linksOf is how many names a file has, 0 for what is no file and where the
// platform does not say.
func linksOf(info workspace.Info) int {
	if info.Kind != workspace.File {
		return 0
	}
	return int(min(info.Links, math.MaxInt32))
}
