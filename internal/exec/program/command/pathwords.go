package command

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxTail is the maximum length, in bytes, of an option that is checked for a file name in the
// same word.
const maxTail = 64

// pathsIn lists the parts of an argument that may name a file: the argument, the part after a
// '=', ',', ':' or a leading '@', and each tail of a short option. "--out=a.txt" results in
// "a.txt", "@args.txt" in "args.txt", and "-abXfile" in "bXfile", "Xfile", "file" and so on,
// because -a, -b and -X may be options of which the last takes a value.
func pathsIn(word string) []string {
	parts := []string{word}
	add := func(part string) {
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if rest, ok := strings.CutPrefix(word, "@"); ok {
		add(rest)
	}
	for at, r := range word {
		if len(parts) >= maxTail {
			break
		}
		if r == '=' || r == ',' || r == ':' {
			add(word[at+1:])
			add(strings.TrimPrefix(word[at+1:], "@"))
		}
	}
	for _, part := range slices.Clone(parts) {
		// In a list, a file is one of its elements.
		if end := strings.IndexAny(part, ",:"); end > 0 {
			add(part[:end])
		}
	}
	if strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") {
		for at := 2; at < min(len(word), maxTail); at++ {
			add(word[at:])
			add(strings.TrimPrefix(word[at:], "@"))
		}
	}
	return parts
}

// inWorkspace returns the workspace-relative names that word may mean for a program in cwd, none
// if it leads elsewhere. With ".." there may be two: "a/../x" results in "x", for a program that
// shortens the text itself, and in "a/../x", for the kernel. If a is a link to b/c, the latter is
// the file b/x.
func inWorkspace(cwd, word string) []string {
	if word == "" || strings.IndexByte(word, 0) >= 0 {
		return nil
	}
	if path.IsAbs(word) {
		rest, ok := fromRoot(cwd, word)
		if !ok {
			return nil
		}
		cwd, word = ".", rest
	}
	var names []string
	if name := path.Join(cwd, word); filepath.IsLocal(name) && name != "." {
		names = append(names, name)
	}
	if raw := strings.TrimPrefix(cwd+"/"+word, "./"); slices.Contains(strings.Split(word, "/"), "..") {
		names = append(names, raw)
	}
	return names
}

// fromRoot resolves an absolute path of the sandbox and returns its part in the workspace. A
// path a.txt in the mount of the workspace, also below the link root of a process, results in
// "a.txt". A path a.txt below the link cwd of a process results in cwd with "a.txt"
// (proc_pid_root(5)).
func fromRoot(cwd, word string) (string, bool) {
	var at []string
	elements := strings.Split(word, "/")
	for i, element := range elements {
		switch element {
		case "", ".":
			continue
		case "..":
			at = at[:max(len(at)-1, 0)]
			continue
		}
		at = append(at, element)
		switch {
		case len(at) == 1 && "/"+element == WorkspaceMount:
			// The rest may leave again; the names show that by "..".
			rest := strings.Join(elements[i+1:], "/")
			if clean := path.Join("/", "x", rest); clean == "/x" || strings.HasPrefix(clean, "/x/") {
				return rest, true
			}
		case len(at) > 2 && at[0] == "proc" && element == "cwd":
			return path.Join(cwd) + "/" + strings.Join(elements[i+1:], "/"), true
		case len(at) > 2 && at[0] == "proc" && element == "root":
			at = nil
		}
	}
	return "", false
}

// Inside returns the path of a program's name in the workspace with that root, false if it is not
// in the workspace. The path may lead out of the workspace.
func Inside(name, root, cwd string) (inside string, is bool) {
	if rest, below := strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/"); root != "" && below {
		return path.Clean(rest), true
	}
	if inside = TrimMount(name); inside != name {
		return inside, true
	}
	return path.Join(cwd, name), strings.Contains(name, "/") && !path.IsAbs(name)
}

// TrimMount removes the mount point of the workspace inside the sandbox.
func TrimMount(p string) string {
	if p == WorkspaceMount {
		return "."
	}
	return strings.TrimPrefix(p, WorkspaceMount+"/")
}
