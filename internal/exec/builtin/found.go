package builtin

import (
	"math"

	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
	"palyra/internal/exec/workspace"
)

// finder checks each file that a call finds below its path. Otherwise naming a parent directory
// would bypass a rule about a path.
type finder struct {
	call tool.Call
	root *workspace.Root
	risk int
}

// mayUse reports whether the tool may use an entry, as if the call had named it.
func (f finder) mayUse(info workspace.Info) bool {
	return f.call.MayRead(tool.FileAccess{
		Tool: f.call.Proposal.Tool.Name, Input: f.call.Proposal.Input, Facts: fileFacts(f.root.Name(), info.Path, linksOf(info), f.risk),
	})
}

// mayRead reports whether fs.read might return the file. A search must not disclose files that a
// rule protects from fs.read.
func (f finder) mayRead(info workspace.Info) bool {
	return f.call.MayRead(readAccess(f.root.Name(), info.Path, linksOf(info)))
}

// readAccess returns the fs.read call for one file with the given number of hard links.
func readAccess(in, real string, links int) tool.FileAccess {
	input, _ := canonical.Marshal(target{Path: real, Workspace: in}) // encoding two strings cannot fail
	return tool.FileAccess{Tool: fsReadName, Input: input, Facts: fileFacts(in, real, links, riskRead)}
}

// linksOf returns the number of names of a file, 0 for other entries and on platforms that do not
// report it.
func linksOf(info workspace.Info) int {
	if info.Kind != workspace.File {
		return 0
	}
	return int(min(info.Links, math.MaxInt32))
}
