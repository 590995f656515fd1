package sandbox

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxTail is the longest option, in bytes, that is looked for before a file
// name in the same word.
const maxTail = 64

// pathsIn lists the parts of an argument that may name a file: the argument, what
// follows a '=', ',', ':' or a leading '@', and each tail of a short option.
// "--out=a.txt" gives "a.txt", "@args.txt" gives "args.txt", and "-abXfile" gives
// "bXfile", "Xfile", "file" and so on, since -a, -b and -X may be options of which
// the last takes a value.
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
		// A list: a file is one of its elements.
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

// inWorkspace returns the workspace-relative names that a program in cwd may mean
// by word, none when it leads elsewhere. With ".." there may be two: "a/../x" gives
// "x", which a program means that shortens the text itself, and "a/../x", which the
// kernel follows. Where a is a link to b/c, that is the file b/x.
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

// fromRoot follows an absolute path as the sandbox shows it and returns its part
// in the workspace: of "/workspace/a.txt" and "/proc/self/root/workspace/a.txt" it
// is "a.txt", of "/proc/self/cwd/a.txt" it is cwd and "a.txt".
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
			// What follows may leave again; the names say so by "..".
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

// Inside is the path in the workspace with that root that the name of a program means, false for
// a name that means none. The path may lead out of the workspace.
func Inside(name, root, cwd string) (inside string, is bool) {
	if rest, below := strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/"); root != "" && below {
		return path.Clean(rest), true
	}
	if inside = TrimMount(name); inside != name {
		return inside, true
	}
	return path.Join(cwd, name), strings.Contains(name, "/") && !path.IsAbs(name)
}

// TrimMount takes off the name that the workspace has inside the sandbox.
func TrimMount(p string) string {
	if p == WorkspaceMount {
		return "."
	}
	return strings.TrimPrefix(p, WorkspaceMount+"/")
}
