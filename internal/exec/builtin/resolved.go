package builtin

import (
	"context"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/program/envsecret"
	"palyra/internal/exec/workspace"
)

// changeAct is the act of all tools that set file contents, so that a change refused as a write
// is not requested again as a patch.
const changeAct = "change"

// resolved returns the resolved form of a call about one path.
func (f files) resolved(act string, plan tool.Plan, what map[string]any) (tool.Resolved, error) {
	location, err := f.set.HostPath(plan.Facts.Workspace, plan.Facts.Path)
	return tool.Resolved{Act: act, Places: []string{location}, What: what}, err
}

// Resolve returns the file that is read, regardless of the part.
func (t fsRead) Resolve(_ context.Context, _ tool.Proposal, plan tool.Plan) (tool.Resolved, error) {
	return t.resolved(fsReadName, plan, nil)
}

// Resolve returns the directory that is listed, regardless of the number of entries.
func (t fsList) Resolve(_ context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error) {
	in, err := decode[listInput](p.Input)
	if err != nil {
		return tool.Resolved{}, err
	}
	return t.resolved(fsListName, plan, map[string]any{"hidden": in.Hidden})
}

// Resolve returns the search pattern and its path.
func (t fsSearch) Resolve(_ context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error) {
	in, err := decode[searchInput](p.Input)
	if err != nil {
		return tool.Resolved{}, err
	}
	re, err := in.compile()
	if err != nil {
		return tool.Resolved{}, err
	}
	return t.resolved(fsSearchName, plan, map[string]any{"pattern": re.String(), "glob": in.Glob, "hidden": in.Hidden})
}

// Resolve returns the new content of the file.
func (t fsWrite) Resolve(ctx context.Context, p tool.Proposal, _ tool.Plan) (tool.Resolved, error) {
	return t.resolvedEdit(ctx, p, t.edit)
}

// Resolve returns the new contents of the files.
func (t fsPatch) Resolve(ctx context.Context, p tool.Proposal, _ tool.Plan) (tool.Resolved, error) {
	return t.resolvedEdit(ctx, p, t.edit)
}

// resolvedEdit returns each file with its new digest and mode.
func (f files) resolvedEdit(ctx context.Context, p tool.Proposal, plan func(context.Context, tool.Proposal) (*edit, error)) (tool.Resolved, error) {
	e, err := plan(ctx, p)
	if err != nil {
		return tool.Resolved{}, err
	}
	defer e.root.Close()
	modes := make(map[string]string)
	for _, d := range e.diffs {
		modes[d.NewPath] = d.NewMode
	}
	what := make(map[string]any, len(e.changes))
	for _, c := range e.changes {
		location, err := f.set.HostPath(e.root.Name(), c.Path)
		if err != nil {
			return tool.Resolved{}, err
		}
		what[location] = "deleted"
		if !c.Delete {
			what[location] = modes[c.Path] + " " + canonical.Digest(c.Content)
		}
	}
	return tool.Resolved{Act: changeAct, Places: slices.Sorted(maps.Keys(what)), What: what}, nil
}

// Resolve returns the request. It includes only the header Content-Type and the headers with
// credentials: a different Accept or User-Agent does not make it another request.
func (t fetch) Resolve(ctx context.Context, p tool.Proposal, _ tool.Plan) (tool.Resolved, error) {
	r, err := t.check(ctx, p)
	if err != nil {
		return tool.Resolved{}, err
	}
	query := r.url.RawQuery
	if values, err := url.ParseQuery(query); err == nil {
		query = values.Encode()
	}
	headers := map[string]string{}
	for _, name := range append([]string{"content-type"}, t.credentials...) {
		if value, ok := r.headers[name]; ok {
			headers[name] = value
		}
	}
	return tool.Resolved{Act: fetchName, What: map[string]any{
		"method": r.method, "scheme": r.url.Scheme, "host": r.host.Join(r.port),
		"path": path.Clean("/" + r.url.Path), "query": query,
		"headers": headers, "body": canonical.Digest(r.body), "secrets": secretBinding(r.secrets),
	}}, nil
}

// Resolve returns the program, its directory and its arguments.
func (t process) Resolve(ctx context.Context, p tool.Proposal, _ tool.Plan) (tool.Resolved, error) {
	c, err := t.check(ctx, p)
	if err != nil {
		return tool.Resolved{}, err
	}
	location, err := t.set.HostPath(c.name, c.cwd)
	if err != nil {
		return tool.Resolved{}, err
	}
	words := []string{c.line.form()}
	if c.line == nil {
		if words, err = spellings(t.set, c); err != nil {
			return tool.Resolved{}, err
		}
	}
	return tool.Resolved{Act: t.toolName, Places: []string{location}, What: map[string]any{
		"program": c.program.Path, "called": c.program.Called, "sha256": c.program.SHA256, "argv": words,
		"environment": slices.Concat([]string{}, c.env, c.placeholders(), envsecret.Bound(c.injections)), "stdin": canonical.Digest(c.stdin),
		"workspace_mode": string(c.mode), "dry_run": c.in.DryRun, "egress": c.net.lines(),
	}}, nil
}

// spellings returns the arguments, with names of workspace files in one spelling.
func spellings(set *workspace.Set, c programCall) ([]string, error) {
	root, err := set.Open(c.name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	words := make([]string, 0, len(c.in.Argv)-1)
	for _, word := range c.in.Argv[1:] {
		option, value, joined := strings.Cut(word, "=")
		if !joined || !strings.HasPrefix(option, "-") {
			option, value, joined = "", word, false
		}
		value = oneSpelling(set, root, c, value)
		if joined {
			value = option + "=" + value
		}
		words = append(words, value)
	}
	return words, nil
}

// oneSpelling returns a word in canonical spelling: a name in the workspace as a path of the
// machine, and any other possible path without detours.
func oneSpelling(set *workspace.Set, root *workspace.Root, c programCall, word string) string {
	if word == "" || strings.HasPrefix(word, "-") || strings.Contains(word, "://") || strings.ContainsRune(word, 0) {
		return word
	}
	inside := command.TrimMount(word)
	if inside == word {
		if path.IsAbs(word) {
			return path.Clean(word)
		}
		inside = path.Join(c.cwd, word)
	}
	if real, err := root.Resolve(inside); err == nil {
		if _, err := root.Stat(real); err == nil {
			if location, err := set.HostPath(c.name, real); err == nil {
				return location
			}
		}
	}
	if strings.Contains(word, "/") {
		return path.Clean(word)
	}
	return word
}

// Resolve returns the waiting time.
func (s sleep) Resolve(_ context.Context, p tool.Proposal, _ tool.Plan) (tool.Resolved, error) {
	in, err := decode[sleepInput](p.Input)
	return tool.Resolved{Act: sleepName, What: map[string]any{"ms": in.DurationMS}}, err
}
