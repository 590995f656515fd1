package overlay

import (
	"slices"
	"strings"

	"palyra/internal/exec/workspace"
)

// gitSteers are the names that make a directory a git repository or configure git in one. They
// are checked wherever a repository is.
var gitSteers = []string{
	"head", "objects", "refs", "packed-refs", "config", "config.worktree", "hooks", "info", "commondir", "gitdir", "modules", "worktrees",
	"branches", "remotes",
}

// gitFiles are the files of a repository that git itself writes during normal work and takes no
// commands from. Each may have a lock file.
var gitFiles = []string{
	"head", "index", "packed-refs", "shallow", "description", "orig_head", "fetch_head", "merge_head", "merge_msg", "merge_mode", "merge_rr",
	"auto_merge", "squash_msg", "commit_editmsg", "tag_editmsg", "cherry_pick_head", "revert_head", "rebase_head", "bisect_head", "bisect_log",
	"bisect_names", "bisect_start", "bisect_terms", "bisect_expected_rev", "bisect_ancestors_ok", "gc.log", "gc.pid",
}

// gitDirs are directories of a repository that contain only git's own data.
var gitDirs = []string{"objects", "refs", "logs", "rr-cache"}

// normalToGit reports whether git itself makes such a change when people commit, switch, merge
// and stash. All other changes, such as of hooks and configuration, can make git run commands.
// The repository must have existed before the program ran, and the path must be folded.
func normalToGit(parts []string, c *Change) bool {
	if c.Is.Type == Symlink || c.Is.Type == Special {
		return false
	}
	first := parts[0]
	if slices.Contains(gitDirs, first) {
		lends := first == "objects" && len(parts) == 3 && parts[1] == "info" && strings.Contains(parts[2], "alternates")
		return !lends && (len(parts) > 1 || c.Is.Type == Dir)
	}
	if len(parts) == 2 && first == "info" && parts[1] == "refs" {
		return true // a list for dumb HTTP servers, written by gc
	}
	if len(parts) != 1 || c.Is.Type == Dir || c.Was.Type == Dir {
		return false
	}
	if first == "head" {
		return c.Is.Type == File
	}
	return slices.Contains(gitFiles, strings.TrimSuffix(first, ".lock")) || strings.HasPrefix(first, "sharedindex.")
}

// folded splits a path into names, folded like on the most tolerant file system.
func folded(name string) []string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = workspace.Fold(part)
	}
	return parts
}
