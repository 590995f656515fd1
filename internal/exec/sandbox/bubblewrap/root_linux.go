package bubblewrap

import (
	"os"
	"slices"
	"strings"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail"
)

// root is what the roots of all sandboxes have in common, found out once.
type root struct {
	// system are bubblewrap's arguments for the directories beside /usr.
	system []string
	// masks are those that this kernel has.
	masks []string
	etc   *etc
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
	for _, name := range jail.Masks() {
		if exists(name) {
			r.masks = append(r.masks, name)
		}
	}
	var err error
	r.etc, err = newEtc()
	return r, err
}

// entries are the names in the root directory inside, sorted.
func (r *root) entries(l layout) []string {
	list := []string{"dev", "etc", "home", "proc", "run", "tmp", "usr", "var", strings.TrimPrefix(sandbox.WorkspaceMount, "/")}
	for _, dir := range jail.SystemDirs() {
		if exists(dir) {
			list = append(list, dir[1:])
		}
	}
	for _, p := range append(slices.Concat(l.caches, l.shown), place{target: l.hostPath}) {
		if p.target == "" {
			continue
		}
		top, _, _ := strings.Cut(strings.TrimPrefix(p.target, "/"), "/")
		list = append(list, top)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// linkable reports whether a link of that name can be made in the root, and that nothing is made through
// it afterwards: it is no part of what the root has, and holds nothing of it.
func linkable(name string, l layout) bool {
	taken := append(jail.SystemDirs(), "/usr", "/etc", "/proc", "/dev", "/sys", "/var/tmp", sandbox.Home, sandbox.WorkspaceMount, sandbox.CacheMount)
	for _, p := range l.shown {
		taken = append(taken, p.target)
	}
	for _, other := range append(taken, "/tmp", "/var", "/run") {
		if strings.HasPrefix(other+"/", name+"/") {
			return false
		}
	}
	return !slices.ContainsFunc(taken, func(other string) bool { return strings.HasPrefix(name, other+"/") })
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
	for _, p := range l.shown {
		rules = append(rules, inside.Rule{Path: p.target, Access: inside.Execute})
	}
	access := inside.Full
	if l.readOnly {
		access = inside.Execute
	}
	return append(rules, inside.Rule{Path: sandbox.WorkspaceMount, Access: access})
}
