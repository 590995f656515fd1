package ask

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// fileArguments are the arguments that name one file or directory of the
// workspace, of every tool that has a workspace. Patterns and patches are not
// among them: they speak of the whole workspace.
var fileArguments = []string{"path", "cwd"}

// Typed builds the input of a call from key=value and key:=JSON. A call that
// names no workspace is in the one that holds the current directory, and what it
// says of files is meant from there.
func Typed(ctx context.Context, g *client.Gateway, name string, members []string) ([]byte, error) {
	schema, err := schemaOf(ctx, g, name)
	if err != nil {
		return nil, err
	}
	if schema.takesWorkspace && !names(members, tool.WorkspaceArgument) {
		if members, err = placed(ctx, g, schema, members); err != nil {
			return nil, err
		}
	}
	if len(members) == 0 {
		return nil, nil
	}
	return inputFrom(members, schema.Properties)
}

// Here is the workspace that holds the current directory, "" for none.
func Here(ctx context.Context, g *client.Gateway) (string, error) {
	list, err := declared(ctx, g)
	if err != nil {
		return "", err
	}
	at, _ := holding(list, currentDirectory())
	return at.name, nil
}

// names reports whether a member is given, as text or as JSON.
func names(members []string, name string) bool {
	return slices.ContainsFunc(members, func(m string) bool {
		key, _, _ := strings.Cut(m, "=")
		return strings.TrimSuffix(key, ":") == name
	})
}

// placed are the members of a call that names no workspace. Where none holds the
// current directory, the gateway knows which one is meant, or says which there
// are; absolute names are understood when there is only one.
func placed(ctx context.Context, g *client.Gateway, schema schema, members []string) ([]string, error) {
	list, err := declared(ctx, g)
	if err != nil {
		return nil, err
	}
	at, held := holding(list, currentDirectory())
	switch {
	case held:
		members = append(slices.Clone(members), tool.WorkspaceArgument+"="+at.name)
	case len(list) == 1:
		at = place{roots: rootsOf(list[0].GetPath())}
	default:
		return members, nil
	}
	return at.files(schema, members), nil
}

// declared are the workspaces of the gateway; none for a caller who may not list
// them.
func declared(ctx context.Context, g *client.Gateway) ([]*palyrav1.WorkspaceStatus, error) {
	reply, err := g.Workspaces.ListWorkspaces(ctx, &palyrav1.ListWorkspacesRequest{})
	if err != nil && client.Explain(nil, err).Code == reason.PermissionDenied {
		return nil, nil
	}
	return reply.GetWorkspaces(), err
}

// place is a directory of a workspace.
type place struct {
	name string
	// roots are the spellings of the workspace's own directory.
	roots []string
	// below is the directory in it, with slashes; "" at its top.
	below string
}

// holding is the workspace that holds a directory, the innermost one of several.
// One directory under two names is none: which one is meant, the caller says.
func holding(list []*palyrav1.WorkspaceStatus, dir string) (place, bool) {
	var at place
	longest, twice := 0, false
	for _, w := range list {
		roots := rootsOf(w.GetPath())
		real := roots[len(roots)-1]
		below, ok := under(real, dir)
		if !ok || len(real) < longest {
			continue
		}
		twice = len(real) == longest
		longest, at = len(real), place{w.GetName(), roots, below}
	}
	if longest == 0 || twice {
		return place{}, false
	}
	return at, true
}

// rootsOf are the spellings of a workspace's directory, the resolved one last.
func rootsOf(declared string) []string {
	return []string{filepath.Clean(declared), resolved(declared)}
}

// currentDirectory is where the command runs, with its links resolved; "" where it
// cannot be told.
func currentDirectory() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return resolved(dir)
}

// resolved is a name without symbolic links, or the name itself where there is
// nothing to resolve.
func resolved(name string) string {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	return filepath.Clean(name)
}

// under is what a name is within a directory, "" for the directory itself.
func under(dir, name string) (string, bool) {
	rel, err := filepath.Rel(dir, name)
	if err != nil || dir == "" || name == "" || !filepath.IsLocal(rel) {
		return "", false
	}
	if rel == "." {
		return "", true
	}
	return filepath.ToSlash(rel), true
}

// files are the members with their file names as the workspace has them. An
// argument that may be left out and is means the directory.
func (p place) files(schema schema, members []string) []string {
	out := slices.Clone(members)
	for _, argument := range fileArguments {
		if _, has := schema.Properties[argument]; !has {
			continue
		}
		for i, m := range out {
			if name, ok := strings.CutPrefix(m, argument+"="); ok {
				out[i] = argument + "=" + p.file(name)
			}
		}
		if p.below != "" && !names(out, argument) && !slices.Contains(schema.Required, argument) {
			out = append(out, argument+"="+p.below)
		}
	}
	return out
}

// file is the name within the workspace of one that was typed in the directory.
func (p place) file(name string) string {
	if filepath.IsAbs(name) {
		return p.absolute(name)
	}
	return fromTop(p.below, name)
}

// absolute takes the workspace's own directory off a name; one elsewhere stays as
// it is, and the gateway refuses it. The last part of it is not followed: a link
// is named, and not what it leads to.
func (p place) absolute(name string) string {
	asTyped := filepath.Clean(name)
	for _, spelling := range []string{asTyped, filepath.Join(resolved(filepath.Dir(asTyped)), filepath.Base(asTyped)), resolved(asTyped)} {
		for _, root := range p.roots {
			if below, ok := under(root, spelling); ok && below == "" {
				return "."
			} else if ok {
				return below
			}
		}
	}
	return name
}

// fromTop joins a directory and a name. Only what leads up from the directory
// itself is taken together, since it has no links: what LINK/.. is, the gateway
// finds out.
func fromTop(below, name string) string {
	rest := filepath.ToSlash(name)
	for below != "" {
		first, after, _ := strings.Cut(rest, "/")
		switch first {
		case ".", "":
		case "..":
			below, _ = path.Split(below)
			below = strings.TrimSuffix(below, "/")
		default:
			return below + "/" + rest
		}
		rest = after
		if rest == "" {
			break
		}
	}
	switch {
	case rest == "" && below != "":
		return below
	case rest == "" && name != "":
		return "."
	}
	return rest
}
