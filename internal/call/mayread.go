package call

import (
	"context"
	"path"
	"slices"
	"strings"

	"palyra/internal/call/approval"
	"palyra/internal/core/access"
	"palyra/internal/core/tool"
	"palyra/internal/core/unified"
)

// MayReadPrompt reports whether the caller may read all files that a prompt may reveal: the
// files that it names, the files of the diff, and the operands. It is false for a prompt that does
// not state the workspace of its files, as prompts of earlier versions do not.
func (d *DryRuns) MayReadPrompt(ctx context.Context, caller access.Caller, prompt *approval.Prompt) bool {
	paths, known := promptFiles(prompt)
	if !known || len(paths) == 0 {
		return known
	}
	return prompt.Workspace != "" && !slices.ContainsFunc(paths, func(path string) bool { return !d.MayReadFile(ctx, caller, prompt.Workspace, path) })
}

// MayReadFacts reports whether the caller may read all files that the facts derive from.
func (d *DryRuns) MayReadFacts(ctx context.Context, caller access.Caller, facts *tool.Facts) bool {
	paths := append(slices.Clone(facts.Paths), facts.Path)
	if exec := facts.Exec; exec != nil && exec.InWorkspace {
		paths = append(paths, path.Clean(exec.Basename))
	}
	return !slices.ContainsFunc(paths, func(path string) bool {
		return path != "" && !d.MayReadFile(ctx, caller, facts.Workspace, path)
	})
}

// promptFiles returns the files whose content is part of a prompt. known is false if the diff
// cannot be parsed, or if a path has characters that the prompt escapes.
func promptFiles(prompt *approval.Prompt) (paths []string, known bool) {
	paths = slices.Clone(prompt.Contents)
	for _, o := range prompt.Runs.Operands {
		paths = append(paths, o.Path)
	}
	changes := unified.Parse(prompt.Diff)
	for _, c := range changes {
		for _, path := range []string{c.OldPath, c.NewPath} {
			if path != "" {
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	escaped := slices.ContainsFunc(paths, func(path string) bool { return strings.Contains(path, `\`) })
	unnamed := strings.Contains(prompt.Diff, "; not shown\n") // the diff has a comment with the sizes of a file
	return paths, !prompt.Unlisted && !escaped && !unnamed && (prompt.Diff == "" || len(changes) > 0)
}
