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

// fileArguments are the arguments that name one file or directory of the workspace, for every tool
// with a workspace. Patterns and patches are not included, because they refer to the whole
// workspace.
var fileArguments = []string{"path", "cwd"}

// Typed builds the input of a call from key=value and key:=JSON. A call that names no workspace
// uses the one that contains the current directory, and its file names are relative to that
// directory. The gateway does not receive the directory: it would be an unverified claim. The input
// contains the workspace and the names, so that policy, approvers and journal see the whole call.
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

// Here returns the workspace that contains the current directory, "" for none.
func Here(ctx context.Context, g *client.Gateway) (string, error) {
	list, err := declared(ctx, g)
	if err != nil {
		return "", err
	}
	at, _ := holding(list, currentDirectory())
	return at.name, nil
}

// names reports whether a member is specified, as text or as JSON.
func names(members []string, name string) bool {
	return slices.ContainsFunc(members, func(m string) bool {
		key, _, _ := strings.Cut(m, "=")
		return strings.TrimSuffix(key, ":") == name
	})
}

// placed returns the members of a call that names no workspace. If no workspace contains the
// current directory, the gateway selects it or lists the workspaces; absolute names are supported
// if there is only one.
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

// declared returns the workspaces of the gateway; none for a caller that may not list them.
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
	// roots are the spellings of the workspace's directory.
	roots []string
	// below is the path within the workspace, with slashes; "" for its root.
	below string
}

// holding returns the innermost workspace that contains a directory. If two workspaces have the
// same directory, none is returned, and the caller must specify one.
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

// rootsOf returns the spellings of a workspace's directory, the resolved one last.
func rootsOf(declared string) []string {
	return []string{filepath.Clean(declared), resolved(declared)}
}

// currentDirectory returns the working directory with resolved links; "" if it is unknown.
func currentDirectory() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return resolved(dir)
}

// resolved returns a name without symbolic links, or the name itself if it cannot be resolved.
func resolved(name string) string {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	return filepath.Clean(name)
}

// under returns the relative path of a name in a directory, "" for the directory itself.
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

// files converts the file names of the members to names in the workspace. An omitted optional
// argument means the directory.
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

// file converts a name that was typed in the directory to a name in the workspace.
func (p place) file(name string) string {
	if filepath.IsAbs(name) {
		return p.absolute(name)
	}
	return fromTop(p.below, name)
}

// absolute removes the workspace's directory from a name; other names are unchanged, and the
// gateway refuses them. The last element is not followed, because it may be a link.
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

// fromTop joins a directory and a name. Only leading ".." elements are resolved, because the
// directory has no links: the gateway resolves LINK/...
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
