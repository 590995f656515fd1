package bubblewrap

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/inside"
	"palyra/internal/sandbox/jail"
)

// generated are the files of /etc that say what is true inside, not what is
// true of the host.
var generated = []struct{ name, content string }{
	{"/etc/passwd", "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\ntool:x:1000:1000:tool:" + sandbox.Home + ":/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"/etc/group", "root:x:0:\ntool:x:1000:\nnogroup:x:65534:\n"},
	{"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
	{"/etc/machine-id", "00000000000000000000000000000000\n"},
	{"/etc/hosts", "127.0.0.1 localhost palyra\n::1 localhost\n"},
	{"/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"},
}

// ofNetwork is how many of the generated files are the host's own when a
// program has the host's network: the last ones.
const ofNetwork = 2

// root is what the roots of all sandboxes have in common, found out once.
type root struct {
	// system and etc are bubblewrap's arguments for the host's directories.
	system, etc []string
	// masks are those that this kernel has.
	masks []string
	// files hold the generated files, in their order.
	files []*os.File
}

func newRoot() (root, error) {
	var r root
	for _, dir := range jail.SystemDirs() {
		if target, err := os.Readlink(dir); err == nil {
			r.system = append(r.system, "--symlink", target, dir)
		} else if exists(dir) {
			r.system = append(r.system, "--ro-bind", dir, dir)
		}
	}
	for _, name := range jail.SharedFiles() {
		if source, err := filepath.EvalSymlinks(name); err == nil {
			r.etc = append(r.etc, "--ro-bind", source, name)
		}
	}
	for _, name := range jail.Masks() {
		if exists(name) {
			r.masks = append(r.masks, name)
		}
	}
	for _, g := range generated {
		f, err := jail.DataFile(filepath.Base(g.name), []byte(g.content))
		if err != nil {
			r.close()
			return root{}, err
		}
		r.files = append(r.files, f)
	}
	return r, nil
}

func (r *root) close() {
	for _, f := range r.files {
		f.Close()
	}
	r.files = nil
}

// open returns another description of a generated file, at its start.
func (r *root) open(i int) (*os.File, error) { return os.Open(jail.SelfPath(int(r.files[i].Fd()))) }

// entries are the names in the root directory inside, sorted.
func (r *root) entries(caches bool) []string {
	list := []string{".", "..", "dev", "etc", "home", "proc", "run", "tmp", "usr", "var", strings.TrimPrefix(sandbox.WorkspaceMount, "/")}
	for _, dir := range jail.SystemDirs() {
		if exists(dir) {
			list = append(list, dir[1:])
		}
	}
	if caches {
		list = append(list, strings.TrimPrefix(sandbox.CacheMount, "/"))
	}
	// The directory itself is not among what is read back.
	list = slices.DeleteFunc(list, func(name string) bool { return strings.Trim(name, ".") == "" })
	slices.Sort(list)
	return list
}

// rules are Landlock's: the second wall, inside the mounts.
func (r *root) rules(l layout) []inside.Rule {
	rules := []inside.Rule{
		{Path: "/", Access: inside.List},
		{Path: "/usr", Access: inside.Execute},
		{Path: "/etc", Access: inside.Read},
		{Path: "/proc", Access: inside.Read},
		{Path: "/dev", Access: inside.Device},
		{Path: "/dev/shm", Access: inside.Full},
		{Path: "/tmp", Access: inside.Full},
		{Path: sandbox.Home, Access: inside.Full},
	}
	for i := 0; i+2 < len(r.system); i += 3 {
		if r.system[i] == "--ro-bind" {
			rules = append(rules, inside.Rule{Path: r.system[i+2], Access: inside.Execute})
		}
	}
	if l.caches != nil {
		rules = append(rules, inside.Rule{Path: sandbox.CacheMount, Access: inside.Full})
	}
	access := inside.Full
	if l.readOnly {
		access = inside.Execute
	}
	return append(rules, inside.Rule{Path: sandbox.WorkspaceMount, Access: access})
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return !errors.Is(err, os.ErrNotExist)
}
