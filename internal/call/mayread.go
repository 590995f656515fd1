package call

import (
	"context"
	"path"
	"slices"
	"strings"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
	"palyra/internal/core/unified"
)

// readInput is the input of tool.ReadFile.
type readInput struct {
	Path      string `json:"path"`
	Workspace string `json:"workspace"`
}

// MayReadFile reports whether policy allows the caller to read a file of a workspace without
// an approval: the question is that of a call of fs.read. The caller needs no permission to
// make calls. Path is relative to the workspace, and the file need not exist. The answer is
// no when the question cannot be asked, and when the path leads to another file: the content
// that the caller would read was under this name, which policy then did not judge.
func (p *Pipeline) MayReadFile(ctx context.Context, caller access.Caller, workspace, path string) bool {
	input, err := canonical.Marshal(readInput{path, workspace})
	if err != nil {
		return false
	}
	c, err := p.planned(ctx, &Submission{Caller: caller, Tool: tool.ReadFile, Input: input})
	if err != nil {
		return false
	}
	return c.plan.Facts.Path == path && c.Evaluator.Current().Evaluate(c.request, nil).Effect() == policy.Allow
}

// MayReadPrompt reports whether the caller may read all files of which a prompt may say
// something: those that it names, and those of the diff and the operands. It is false for a prompt that does not say in
// which workspace they are, as those of earlier versions do not.
func (p *Pipeline) MayReadPrompt(ctx context.Context, caller access.Caller, prompt *approval.Prompt) bool {
	paths, known := promptFiles(prompt)
	if !known || len(paths) == 0 {
		return known
	}
	return prompt.Workspace != "" && !slices.ContainsFunc(paths, func(path string) bool { return !p.MayReadFile(ctx, caller, prompt.Workspace, path) })
}

// MayReadFacts reports whether the caller may read all files that facts are of.
func (p *Pipeline) MayReadFacts(ctx context.Context, caller access.Caller, facts *tool.Facts) bool {
	paths := append(slices.Clone(facts.Paths), facts.Path)
	if exec := facts.Exec; exec != nil && exec.InWorkspace {
		paths = append(paths, path.Clean(exec.Basename))
	}
	return !slices.ContainsFunc(paths, func(path string) bool {
		return path != "" && !p.MayReadFile(ctx, caller, facts.Workspace, path)
	})
}

// promptFiles returns the files whose content is part of a prompt. It does not know them when
// the diff cannot be parsed, or when a path has characters that the prompt writes out.
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
	unnamed := strings.Contains(prompt.Diff, "; not shown\n") // a comment with the sizes of a file
	return paths, !prompt.Unlisted && !escaped && !unnamed && (prompt.Diff == "" || len(changes) > 0)
}
