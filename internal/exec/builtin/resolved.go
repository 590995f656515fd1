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
	"palyra/internal/exec/program/injecting"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace"
)

// changeAct is the act of all tools that give files a content: what was refused
// as a write is not asked again as a patch.
const changeAct = "change"

// resolved is what a call about one path comes to.
func (f files) resolved(act string, plan tool.Plan, what map[string]any) (tool.Resolved, error) {
	location, err := f.set.HostPath(plan.Facts.Workspace, plan.Facts.Path)
	return tool.Resolved{Act: act, Places: []string{location}, What: what}, err
}

// Resolve says what is read: the file, whatever part of it.
func (t fsRead) Resolve(_ context.Context, _ tool.Proposal, plan tool.Plan) (tool.Resolved, error) {
	return t.resolved(fsReadName, plan, nil)
}

// Resolve says what is listed: the directory, however much of it.
func (t fsList) Resolve(_ context.Context, p tool.Proposal, plan tool.Plan) (tool.Resolved, error) {
	in, err := decode[listInput](p.Input)
	if err != nil {
		return tool.Resolved{}, err
	}
	return t.resolved(fsListName, plan, map[string]any{"hidden": in.Hidden})
}

// Resolve says what is looked for and where.
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

// Resolve says what the file becomes.
func (t fsWrite) Resolve(ctx context.Context, p tool.Proposal, _ tool.Plan) (tool.Resolved, error) {
	return t.resolvedEdit(ctx, p, t.edit)
}

// Resolve says what the files become.
func (t fsPatch) Resolve(ctx context.Context, p tool.Proposal, _ tool.Plan) (tool.Resolved, error) {
	return t.resolvedEdit(ctx, p, t.edit)
}

// resolvedEdit names each file with the digest and mode that it gets.
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

// Resolve says what is requested. Of the headers it has only Content-Type and
// those that hold credentials: with another Accept or User-Agent it is the same
// request.
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

// Resolve says which program runs where and on what.
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
		if words, err = t.words(c); err != nil {
			return tool.Resolved{}, err
		}
	}
	return tool.Resolved{Act: t.toolName, Places: []string{location}, What: map[string]any{
		"program": c.program.Path, "called": c.program.Called, "sha256": c.program.SHA256, "argv": words,
		"environment": slices.Concat([]string{}, c.env, c.placeholders(), injecting.Bound(c.injections)), "stdin": canonical.Digest(c.stdin),
		"workspace_mode": string(c.mode), "dry_run": c.in.DryRun, "egress": t.reach(c),
	}}, nil
}

// words are the arguments with what names a file of the workspace in one
// spelling.
func (t process) words(c command) ([]string, error) {
	root, err := t.set.Open(c.name)
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
		value = t.oneSpelling(root, c, value)
		if joined {
			value = option + "=" + value
		}
		words = append(words, value)
	}
	return words, nil
}

// oneSpelling is a word as a path of the machine when it is one of something in
// the workspace, and without detours when it could be one.
func (t process) oneSpelling(root *workspace.Root, c command, word string) string {
	if word == "" || strings.HasPrefix(word, "-") || strings.Contains(word, "://") || strings.ContainsRune(word, 0) {
		return word
	}
	inside := sandbox.TrimMount(word)
	if inside == word {
		if path.IsAbs(word) {
			return path.Clean(word)
		}
		inside = path.Join(c.cwd, word)
	}
	if real, err := root.Resolve(inside); err == nil {
		if _, err := root.Stat(real); err == nil {
			if location, err := t.set.HostPath(c.name, real); err == nil {
				return location
			}
		}
	}
	if strings.Contains(word, "/") {
		return path.Clean(word)
	}
	return word
}

// Resolve says how long it waits.
func (s sleep) Resolve(_ context.Context, p tool.Proposal, _ tool.Plan) (tool.Resolved, error) {
	in, err := decode[sleepInput](p.Input)
	return tool.Resolved{Act: sleepName, What: map[string]any{"ms": in.DurationMS}}, err
}
