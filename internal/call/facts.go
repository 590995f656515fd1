package call

import (
	"context"
	"slices"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
)

// mayDisclose reports whether policy allows the caller, and the asker if set, to read all of
// the files without an approval. Votes on the call do not count, because they approve the
// call's effect only.
func (q *question) mayDisclose(files []tool.FileAccess) bool {
	asker := q.sub.Asker
	return q.mayDiscloseTo(q.sub.Caller, files) && (asker.Principal.IsZero() || q.mayDiscloseTo(asker, files))
}

// restricted reports whether the digest and the subject of the call would confirm a guess about
// files that its caller may not read. These files are the ones that planning inspected
// (existing or not), the operands, and a workspace program whose digest only approvers see.
func (q *question) restricted(ctx context.Context) bool {
	exec := q.plan.Facts.Exec
	return exec != nil && exec.Origin == tool.OriginWorkspace || q.plan.Unlisted || !q.mayDisclose(q.plan.Contents) ||
		slices.ContainsFunc(q.plan.Binding.Operands, func(o tool.Operand) bool {
			return !q.MayReadFile(ctx, q.sub.Caller, q.plan.Facts.Workspace, o.Path)
		})
}

func (q *question) mayDiscloseTo(reader access.Caller, files []tool.FileAccess) bool {
	set := q.Evaluator.Current()
	return !slices.ContainsFunc(files, func(f tool.FileAccess) bool {
		request := q.request
		request.Caller, request.Editors = reader, nil
		request.Tool, request.Args, request.Facts = f.Tool, f.Input, f.Facts
		request.Capabilities = []tool.Capability{tool.FilesystemRead}
		return set.Evaluate(request, nil).Effect() != policy.Allow
	})
}

// MayReadFile reports whether policy allows the caller to read a file of a workspace without an
// approval, as if by a call of fs.read. The caller needs no permission to make calls. path is
// relative to the workspace, and the file need not exist. The result is false if the request
// cannot be evaluated, and if the path leads to another file. In that case policy judged the
// other file's name, and not the name under which the content was read.
func (p *services) MayReadFile(ctx context.Context, caller access.Caller, workspace, path string) bool {
	input, err := canonical.Marshal(readInput{path, workspace})
	if err != nil {
		return false
	}
	q, err := p.planned(ctx, &Submission{Caller: caller, Tool: tool.ReadFile, Input: input})
	if err != nil {
		return false
	}
	return q.plan.Facts.Path == path && q.Evaluator.Current().Evaluate(q.request, nil).Effect() == policy.Allow
}

// readInput is the input of tool.ReadFile.
type readInput struct {
	Path      string `json:"path"`
	Workspace string `json:"workspace"`
}

// planned plans a call that is not made. The question is nil if the arguments are refused. It is
// not nil if planning fails, because planning may have read files.
func (p *services) planned(ctx context.Context, s *Submission) (*question, error) {
	c := newCall(p, s, nil, func(Event) {})
	checked, err := c.check()
	if err != nil {
		return nil, err
	}
	return c.plan(ctx, checked, tool.SessionFacts{CallsInRun: 1})
}
