package process

import (
	"os"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// OwnRoot returns the start of a command line that runs in namespaces in which the user of the test
// is root. That user owns the directories above the given ones. Directories of the system may have
// no valid owner there, and palyrad refuses a configuration below such a directory. The rest of the
// system is unchanged, except by the options of bubblewrap.
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
