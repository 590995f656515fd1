package process

import (
	"os"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// OwnRoot is the beginning of a command line that runs in namespaces in which the user of the test
// is root. The directories above those given belong to that user: where the test's user is not
// root, those of the system belong to nobody there, and palyrad takes no configuration from below
// them. The rest of the system is as it is, but for what options of bubblewrap change.
func OwnRoot(t testing.TB, directories []string, options ...string) []string {
	t.Helper()
	line := []string{"bwrap", "--unshare-user", "--uid", "0", "--gid", "0", "--die-with-parent"}
	for _, entry := range must.Get(os.ReadDir("/"))(t) {
		path := "/" + entry.Name()
		switch {
		case entry.Type()&os.ModeSymlink != 0:
			line = append(line, "--symlink", must.Get(os.Readlink(path))(t), path)
		case entry.IsDir() && !slices.ContainsFunc(directories, func(dir string) bool { return strings.HasPrefix(dir+"/", path+"/") }):
			line = append(line, "--dev-bind", path, path)
		}
	}
	for _, dir := range directories {
		line = append(line, "--dev-bind", dir, dir)
	}
	return append(append(line, options...), "--")
}
