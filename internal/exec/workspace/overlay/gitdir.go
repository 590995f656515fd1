package overlay

import (
	"slices"
	"strings"

	"palyra/internal/exec/workspace"
)

// gitSteers are the names that make a directory a repository to git, or by
// which git is steered in one. They are judged wherever a repository stands.
var gitSteers = []string{
	"head", "objects", "refs", "packed-refs", "config", "config.worktree", "hooks", "info", "commondir", "gitdir", "modules", "worktrees",
	"branches", "remotes",
}

// gitFiles are the files of a repository that git itself writes while people
// work, and from which it takes no commands. Each may have a lock beside it.
var gitFiles = []string{
	"head", "index", "packed-refs", "shallow", "description", "orig_head", "fetch_head", "merge_head", "merge_msg", "merge_mode", "merge_rr",
	"auto_merge", "squash_msg", "commit_editmsg", "tag_editmsg", "cherry_pick_head", "revert_head", "rebase_head", "bisect_head", "bisect_log",
	"bisect_names", "bisect_start", "bisect_terms", "bisect_expected_rev", "bisect_ancestors_ok", "gc.log", "gc.pid",
}

// gitDirs are directories of a repository that hold nothing but what git keeps.
var gitDirs = []string{"objects", "refs", "logs", "rr-cache"}

// normalToGit reports whether a change inside a repository is one that git makes by
// itself when people commit, switch, merge and stash. All others, such as of hooks
// and configuration, can make git run commands. The repository was there before the
// program ran, and the path is folded.
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
		return true // a list for servers without git, kept by gc
	}
	if len(parts) != 1 || c.Is.Type == Dir || c.Was.Type == Dir {
		return false
	}
	if first == "head" {
		return c.Is.Type == File
	}
	return slices.Contains(gitFiles, strings.TrimSuffix(first, ".lock")) || strings.HasPrefix(first, "sharedindex.")
}

// folded splits a path into names as the most forgiving file system sees them.
func folded(name string) []string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = workspace.Fold(part)
	}
	return parts
}
