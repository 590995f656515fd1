package builtin

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/core/unified"
	"palyra/internal/exec/program/commitgate"
	"palyra/internal/exec/workspace"
	"palyra/internal/exec/workspace/overlay"
)

// edit is a planned set of changes to the files of one workspace.
type edit struct {
	// tool and version identify the tool that makes the changes; summary describes them in one
	// sentence.
	tool, version string
	summary       func(*edit) string

	root *workspace.Root
	// protected are the operator's patterns of protected paths.
	protected []string
	// targets are the resolved paths of the call, and names the paths in its arguments.
	// declaredRisk is the risk that follows from the arguments alone. All three are known before
	// any file is read.
	targets      []string
	names        []string
	declaredRisk int

	changes []workspace.Change
	diffs   []unified.File
	risk    int
}

// addTarget records a resolved path of the call and the risk that follows from the arguments
// alone.
func (e *edit) addTarget(real string, risk int, executable *bool) {
	if executable != nil && *executable {
		risk += riskExecutable
	}
	e.targets = append(e.targets, real)
	e.declaredRisk = max(e.declaredRisk, risk)
}

// resolveTarget resolves a path of the call. Errors about the path in the arguments are returned
// unchanged; errors about the location to which it resolves are restricted.
func (e *edit) resolveTarget(name string, risk int, executable *bool) (string, error) {
	e.names = append(e.names, path.Clean(name))
	real, err := e.root.Target(name)
	if err != nil && (!filepath.IsLocal(name) || workspace.ProtectedForWriting(name)) {
		return "", err
	}
	if err != nil {
		e.addTarget(path.Clean(name), risk, executable)
		return "", e.restrict(err)
	}
	e.addTarget(real, risk, executable)
	return real, nil
}

// restrict wraps an error about the content of the targets in a RestrictedError.
func (e *edit) restrict(err error) error {
	if !isContentError(err) {
		return err
	}
	plan := e.planFor(slices.Sorted(slices.Values(e.targets)), 0, e.declaredRisk)
	return &tool.RestrictedError{Plan: plan, Detail: err}
}

// contents returns the fs.read call of each target.
func (e *edit) contents() []tool.FileAccess {
	list := make([]tool.FileAccess, len(e.targets))
	for i, real := range e.targets {
		links := 0
		if info, err := e.root.Stat(real); err == nil {
			links = linksOf(info)
		}
		list[i] = readAccess(e.root.Name(), real, links)
	}
	return list
}

// planFor returns the plan without file content.
func (e *edit) planFor(paths []string, links, risk int) tool.Plan {
	facts := fileFacts(e.root.Name(), commonPath(paths), links, risk)
	facts.Paths = paths
	names := slices.Compact(slices.Sorted(slices.Values(e.names)))
	named := fileFacts(e.root.Name(), commonPath(names), 0, e.declaredRisk)
	named.Paths = names
	return tool.Plan{
		Named:         &named,
		Binding:       tool.Binding{Cwd: e.root.Name() + ":."},
		Facts:         facts,
		Preview:       tool.Preview{Summary: fmt.Sprintf("Change %s in workspace %s.", namedOrCounted(paths), e.root.Name())},
		Subject:       fmt.Sprintf("%s:%s:%s", e.tool, e.root.Name(), pathsSubject(paths)),
		SubjectCovers: fmt.Sprintf("any change that %s makes to %s in workspace %s", e.tool, namedOrCounted(paths), e.root.Name()),
		Contents:      e.contents(),
	}
}

// present is the current state of a file.
type present struct {
	exists  bool
	content []byte
	sha256  string
	mode    fs.FileMode
}

// now reads the file to change. Its name has been resolved.
func (e *edit) now(ctx context.Context, real string) (present, error) {
	content, err := e.root.ReadFile(ctx, real, 0, -1)
	if reason.Of(err) == reason.FileNotFound {
		return present{}, nil
	}
	if err != nil {
		return present{}, err
	}
	if content.Info.Links > 1 {
		return present{}, reason.Errorf(reason.WorkspaceScope, "%q has %d hard links, so it may also be a file outside the workspace", real, content.Info.Links).
			WithRemedy("Break the link first: copy the file and rename the copy over it.")
	}
	return present{exists: true, content: content.Data, sha256: content.SHA256, mode: content.Info.Mode}, nil
}

// writable refuses a read-only workspace before any approval is requested.
func (e *edit) writable() error {
	if e.root.ReadOnly() {
		return reason.Errorf(reason.WorkspaceScope, "workspace %q is read-only", e.root.Name()).
			WithRemedy("Ask the operator to declare it without read_only.")
	}
	return nil
}

// put adds a write of one file.
func (e *edit) put(real string, was present, content []byte, executable *bool) {
	e.changes = append(e.changes, workspace.Change{Path: real, Was: was.sha256, Content: content, Executable: executable})
	d := unified.File{NewPath: real, New: content, NewMode: gitMode(was.mode, executable)}
	risk := riskCreate
	if was.exists {
		d.OldPath, d.Old, d.OldMode = real, was.content, gitMode(was.mode, nil)
		risk = riskChange
	}
	if executable != nil && *executable {
		risk += riskExecutable
	}
	e.diffs = append(e.diffs, d)
	e.risk = max(e.risk, risk)
}

// remove adds the deletion of one file.
func (e *edit) remove(real string, was present) {
	e.changes = append(e.changes, workspace.Change{Path: real, Was: was.sha256, Delete: true})
	e.diffs = append(e.diffs, unified.File{OldPath: real, Old: was.content, OldMode: gitMode(was.mode, nil)})
	e.risk = max(e.risk, riskDelete)
}

func gitMode(mode fs.FileMode, executable *bool) string {
	if executable != nil && *executable || executable == nil && mode&0o100 != 0 {
		return "100755"
	}
	return "100644"
}

// paths lists the files that change, sorted.
func (e *edit) paths() []string {
	list := make([]string, 0, len(e.changes))
	for _, c := range e.changes {
		list = append(list, c.Path)
	}
	slices.Sort(list)
	return list
}

// plan describes the edit. The operands are the files to change with their current digests, ""
// for a file that does not exist.
func (e *edit) plan() tool.Plan {
	operands := make([]tool.Operand, 0, len(e.changes))
	for _, c := range e.changes {
		operands = append(operands, tool.Operand{Path: c.Path, SHA256: c.Was})
	}
	slices.SortFunc(operands, func(a, b tool.Operand) int { return strings.Compare(a.Path, b.Path) })
	p := e.planFor(e.paths(), e.links(), e.risk)
	p.Binding.Operands = operands
	p.Preview.Summary = e.summary(e)
	p.Preview.Diff, p.Preview.Notes = previewDiff(e.diffs)
	return p
}

// links returns 1, the number of hard links, if the edit changes exactly one file and the file
// exists; otherwise 0. Method now refuses files with several hard links.
func (e *edit) links() int {
	if len(e.changes) == 1 && e.changes[0].Was != "" {
		return 1
	}
	return 0
}

// mostCovered is the maximum length of the paths that a grant names one by one, in characters.
const mostCovered = 200

// namedOrCounted lists the paths, or counts them if the list is too long to read; the diff shows
// all of them.
func namedOrCounted(paths []string) string {
	if text := strings.Join(paths, ", "); len(text) <= mostCovered {
		return text
	}
	return fmt.Sprintf("exactly these %d files", len(paths))
}

func pathsSubject(paths []string) string {
	parts := make([]string, 0, len(paths))
	for _, p := range paths {
		parts = append(parts, subjectPart(p))
	}
	return strings.Join(parts, ",")
}

// commonPath returns the path if there is only one, otherwise the deepest common directory, "."
// for the workspace.
func commonPath(paths []string) string {
	if len(paths) == 1 {
		return paths[0]
	}
	common := strings.Split(paths[0], "/")
	for _, p := range paths {
		parts := strings.Split(p, "/")
		n := 0
		for n < len(common) && n < len(parts)-1 && common[n] == parts[n] {
			n++
		}
		common = common[:n]
	}
	if len(common) == 0 {
		return "."
	}
	return strings.Join(common, "/")
}

// changedFile is one file in the result of an edit.
type changedFile struct {
	Path   string `json:"path"`
	Action string `json:"action"`
	// Bytes is the new size.
	Bytes     int    `json:"bytes"`
	SHA256    string `json:"sha256"`
	WasSHA256 string `json:"was_sha256"`
}

type editResult struct {
	Workspace string        `json:"workspace"`
	Files     []changedFile `json:"files"`
}

// run makes the changes and fills the report's list of files. The result contains no
// previous digest, and does not distinguish created from changed files, for a caller that
// may not read the files.
func (e *edit) run(ctx context.Context, call tool.Call, report tool.Report) tool.Report {
	if err := e.askToCommit(ctx, call); err != nil {
		return report.Fail(ctx, err)
	}
	applied, err := e.root.Apply(ctx, e.changes)
	disclose := call.MayDisclose != nil && call.MayDisclose(e.contents())
	result := editResult{Workspace: e.root.Name(), Files: []changedFile{}}
	for i, a := range applied {
		report.Files = append(report.Files, tool.FileChange{Workspace: e.root.Name(), Path: a.Path, Was: a.Was, Is: a.Is})
		f := changedFile{Path: a.Path, Bytes: len(e.changes[i].Content), SHA256: a.Is, WasSHA256: a.Was, Action: "changed"}
		switch {
		case a.Is == "":
			f.Action = "deleted"
		case !disclose:
			f.Action = "written"
		case a.Was == "":
			f.Action = "created"
		}
		if !disclose {
			f.WasSHA256 = ""
		}
		result.Files = append(result.Files, f)
	}
	if err != nil {
		return report.Fail(ctx, tool.Disclose(e.restrict(err), call.MayDisclose))
	}
	return report.Succeed(result)
}

// askToCommit requests the commit of the changes, like the commit of a program's changes. Files
// that the gateway itself protects were refused earlier; files that match the operator's patterns
// are reported as protected. Changed files that other programs run, such as a Makefile, were part
// of the decision on the call.
func (e *edit) askToCommit(ctx context.Context, call tool.Call) error {
	changes := make([]overlay.Change, len(e.changes))
	for i, c := range e.changes {
		changes[i] = overlay.Change{Path: c.Path, Was: overlay.State{SHA256: c.Was}, Classes: overlay.DeclaredClasses(c.Path, e.protected)}
		if c.Was != "" {
			changes[i].Was.Type = overlay.File
		}
		if !c.Delete {
			changes[i].Is = overlay.State{Type: overlay.File, Size: int64(len(c.Content)), SHA256: canonical.Digest(c.Content)}
		}
	}
	slices.SortFunc(changes, func(a, b overlay.Change) int { return strings.Compare(a.Path, b.Path) })
	set, err := overlay.NewSet(e.root.Name(), changes)
	if err != nil {
		return err
	}
	r := commitgate.Request(set)
	r.Preview.Summary = e.summary(e)
	r.Preview.Diff, r.Preview.Notes = previewDiff(e.diffs)
	_, err = commitgate.Ask(ctx, call, set, r)
	return err
}

// planEdit returns the plan of an edit and closes the edit.
func planEdit(e *edit, err error) (tool.Plan, error) {
	if err != nil {
		return tool.Plan{}, err
	}
	defer e.root.Close()
	return e.plan(), nil
}

// prepareEdit returns the call that makes exactly these changes.
func prepareEdit(e *edit, err error) (tool.Prepared, error) {
	if err != nil {
		return tool.Prepared{}, err
	}
	return tool.Prepared{
		Plan:  e.plan(),
		Run:   func(ctx context.Context, c tool.Call) tool.Report { return e.run(ctx, c, begin(e.version)) },
		Close: func() { e.root.Close() },
	}, nil
}
