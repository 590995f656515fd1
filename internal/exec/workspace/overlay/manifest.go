package overlay

import (
	"encoding/json"
	"path"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"palyra/internal/core/canonical"
	"palyra/internal/exec/workspace"
)

// manifestData lists the data members of project files that can also contain commands. A change
// of only "dependencies" in package.json is not protected, a change of "scripts" is. File names
// are folded; "project.name" is the member name in the member project.
var manifestData = map[string][]string{
	"package.json": {
		"name", "version", "description", "keywords", "homepage", "bugs", "license", "author", "contributors", "funding", "repository", "private",
		"type", "main", "module", "browser", "types", "typings", "exports", "imports", "files", "sideEffects", "engines", "os", "cpu", "browserslist",
		"dependencies", "devDependencies", "peerDependencies", "peerDependenciesMeta", "optionalDependencies", "bundleDependencies", "bundledDependencies",
	},
	"composer.json": {
		"name", "version", "description", "keywords", "homepage", "license", "authors", "type", "time", "support", "funding",
		"require", "require-dev", "conflict", "replace", "provide", "suggest", "minimum-stability", "prefer-stable",
	},
	"pyproject.toml": {
		"project.name", "project.version", "project.description", "project.readme", "project.requires-python", "project.license", "project.authors",
		"project.maintainers", "project.keywords", "project.classifiers", "project.urls", "project.dependencies", "project.optional-dependencies",
		"dependency-groups", "tool.poetry.name", "tool.poetry.version", "tool.poetry.description", "tool.poetry.authors", "tool.poetry.readme",
		"tool.poetry.dependencies", "tool.poetry.dev-dependencies", "tool.poetry.group", "tool.uv.dev-dependencies",
	},
	"cargo.toml": {
		"package.name", "package.version", "package.edition", "package.authors", "package.description", "package.license", "package.repository",
		"package.keywords", "package.categories", "package.rust-version", "dependencies", "dev-dependencies", "build-dependencies", "features",
		"workspace.members", "workspace.dependencies", "profile", "lints",
	},
}

// dataOnly reports whether the two contents of a project file differ in data only. nil means that
// the file does not exist. Unreadable content counts as a command.
func dataOnly(name string, was, is []byte) bool {
	name = workspace.Fold(path.Base(name))
	data, ok := manifestData[name]
	if !ok {
		return false
	}
	before, ok := members(name, was)
	if !ok {
		return false
	}
	after, ok := members(name, is)
	if !ok {
		return false
	}
	for _, at := range data {
		drop(before, at)
		drop(after, at)
	}
	return reflect.DeepEqual(before, after)
}

// members decodes a project file.
func members(name string, content []byte) (map[string]any, bool) {
	all := map[string]any{}
	if content == nil {
		return all, true
	}
	if path.Ext(name) == ".toml" {
		return all, toml.Unmarshal(content, &all) == nil
	}
	// The canonical form refuses repeated members, which parsers treat differently.
	text, err := canonical.JSON(content)
	return all, err == nil && json.Unmarshal(text, &all) == nil
}

// drop deletes a member, and the tables that become empty.
func drop(all map[string]any, at string) {
	first, rest, deep := strings.Cut(at, ".")
	if !deep {
		delete(all, first)
		return
	}
	if table, ok := all[first].(map[string]any); ok {
		drop(table, rest)
		if len(table) == 0 {
			delete(all, first)
		}
	}
}
