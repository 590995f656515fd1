package linked

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// crateSource matches the path of a source file in a panic message: the registry's folder in the
// cache of cargo, and then the crate with its version.
var crateSource = regexp.MustCompile(`/registry/src/[^/\x00]+/([A-Za-z0-9_-]+-[0-9]+\.[0-9]+\.[0-9]+[A-Za-z0-9.+-]*)/`)

// crates returns the Rust crates of the static libraries in directories, sorted.
func crates(directories map[string]bool) ([]string, error) {
	var found []string
	for directory := range directories {
		libraries, err := filepath.Glob(filepath.Join(directory, "*.a"))
		if err != nil {
			return nil, err
		}
		for _, library := range libraries {
			content, err := os.ReadFile(library)
			if err != nil {
				return nil, err
			}
			for _, match := range crateSource.FindAllSubmatch(content, -1) {
				found = append(found, string(match[1]))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}
