package overlay

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/exec/workspace"
)

// dependencies are directories in which package managers install other projects. Files that tools
// read only at the top of a project, such as .github/workflows, have no effect there.
var dependencies = []string{"node_modules", "site-packages"}

// packaged are names that packages often contain and that no program reads from inside of a
// package.
var packaged = []string{
	".github", ".gitea", ".forgejo", ".circleci", ".gitlab-ci.yml", ".gitlab-ci.yaml", ".travis.yml", "appveyor.yml", ".appveyor.yml", ".drone.yml",
	"azure-pipelines.yml", ".cirrus.yml", "jenkinsfile", ".idea", ".vscode", ".devcontainer", ".husky", ".gitmodules", ".pre-commit-config.yaml",
	".npmrc", ".yarnrc", ".yarnrc.yml", ".tool-versions",
}

// instructions are texts that agents follow. Reading them is harmless, so workspace.Protected
// does not include them.
var instructions = []string{
	"agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", "copilot-instructions.md", ".goosehints",
}

// agentPath reports whether agents, editors, shells, package managers or CI take commands from a
// path. Paths in git repositories are classified in git_linux.go.
func agentPath(name string) bool {
	inside, below := inDependency(name)
	if !inside && slices.Contains(instructions, workspace.Fold(path.Base(name))) {
		return true
	}
	if !workspace.Protected(name) {
		return false
	}
	return !inside || !slices.ContainsFunc(below, func(part string) bool { return slices.Contains(packaged, part) })
}

// inDependency reports whether a path is inside one of dependencies, and returns the folded names
// below it.
func inDependency(name string) (bool, []string) {
	names := folded(name)
	for i := len(names) - 2; i >= 0; i-- {
		if slices.Contains(dependencies, names[i]) {
			return true, names[i+1:]
		}
	}
	return false, nil
}

// Returning returns the classes of an entry that an undo restores. Only its state is known, not
// the workspace around it, so every link, every program and every unusual mode counts.
func Returning(name string, is State, protected []string) (classes []Class) {
	classes = DeclaredClasses(name, protected)
	if is.Type == None {
		return classes
	}
	if agentPath(name) {
		classes = append(classes, ClassAgent)
	}
	if runnerFile(name) {
		classes = append(classes, ClassRunner)
	}
	switch {
	case is.Type == Symlink:
		classes = append(classes, ClassSymlink)
	case is.Type == File && is.Mode&0o111 != 0:
		classes = append(classes, ClassExecutable)
	}
	if is.Mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
		classes = append(classes, ClassMode)
	}
	return classes
}

// DeclaredClasses returns the classes of a path by the operator's patterns alone.
func DeclaredClasses(name string, protected []string) []Class {
	if Declared(protected, name) {
		return []Class{ClassDeclared}
	}
	return nil
}

// runnerFile reports whether a known runner takes commands from a file of that path.
func runnerFile(name string) bool {
	inside, _ := inDependency(name)
	return !inside && workspace.RunnerOrders(path.Base(name))
}

// CheckPattern returns an error for an invalid pattern of protected paths. A pattern is relative
// to the workspace: "*", "?" and "[a-z]" match within a name, "**" any number of directories.
// Everything below a matching path is protected as well.
func CheckPattern(pattern string) error {
	bad := func(format string, args ...any) error {
		return reason.Errorf(reason.ConfigInvalid, "protected pattern %s "+format, append([]any{quote(pattern)}, args...)...).
			WithRemedy(`Write it relative to the workspace, such as "scripts/*.sh" or "deploy/**".`)
	}
	if pattern == "" || strings.HasPrefix(pattern, "/") {
		return bad("is empty or absolute")
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(pattern, "/"), "/") {
		if part == "" || part == "." || part == ".." {
			return bad("has an element that is empty, . or ..")
		}
		if _, err := path.Match(part, ""); err != nil {
			return bad("has an element that is not a valid pattern: %w", err)
		}
	}
	return nil
}

// Declared reports whether a path, or a parent of it, matches one of the operator's patterns.
// Case and Unicode forms are ignored.
func Declared(patterns []string, name string) bool {
	names := folded(name)
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return matches(folded(strings.TrimSuffix(pattern, "/")), names)
	})
}

func matches(pattern, names []string) bool {
	switch {
	case len(pattern) == 0:
		return true // the rest of names is below the match
	case pattern[0] == "**" && len(pattern) == 1:
		return len(names) > 0
	case pattern[0] == "**":
		return slices.ContainsFunc(indexes(names), func(i int) bool { return matches(pattern[1:], names[i:]) })
	case len(names) == 0:
		return false
	}
	ok, err := path.Match(pattern[0], names[0])
	return (ok || err != nil) && matches(pattern[1:], names[1:])
}

// indexes returns the indexes of names and the one after the last.
func indexes(names []string) []int {
	all := make([]int, len(names)+1)
	for i := range all {
		all[i] = i
	}
	return all
}
