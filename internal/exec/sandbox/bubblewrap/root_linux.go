package bubblewrap

import (
	"os"
	"slices"
	"strings"

	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail"
)

// root is the common part of the roots of all sandboxes, determined once.
type root struct {
	// system are bubblewrap's arguments for the directories other than /usr.
	system []string
	// masks are the masked files that exist on this kernel.
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

// entries returns the names in the root directory inside, sorted.
func (r *root) entries(l layout) []string {
	list := []string{"dev", "etc", "home", "proc", "run", "tmp", "usr", "var", strings.TrimPrefix(command.WorkspaceMount, "/")}
	for _, dir := range jail.SystemDirs() {
		if exists(dir) {
			list = append(list, dir[1:])
		}
	}
	for _, p := range append(slices.Concat(l.caches, l.toolchains), place{target: l.hostPath}) {
		if p.target == "" {
			continue
		}
		top, _, _ := strings.Cut(strings.TrimPrefix(p.target, "/"), "/")
		list = append(list, top)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// linkable reports whether a link of that name can be created in the root without conflict: no
// entry of the root is equal to it or below it.
func linkable(name string, l layout) bool {
	taken := append(jail.SystemDirs(), "/usr", "/etc", "/proc", "/dev", "/sys", "/var/tmp", command.Home, command.WorkspaceMount, sandbox.CacheMount)
	for _, p := range l.toolchains {
		taken = append(taken, p.target)
	}
	for _, other := range append(taken, "/tmp", "/var", "/run") {
		if strings.HasPrefix(other+"/", name+"/") {
			return false
		}
	}
	return !slices.ContainsFunc(taken, func(other string) bool { return strings.HasPrefix(name, other+"/") })
}

// rules returns the Landlock rules, which restrict access in addition to the mounts.
func (r *root) rules(l layout) []inside.Rule {
	rules := []inside.Rule{
		{Path: "/", Access: inside.List},
		{Path: "/usr", Access: inside.Execute},
		{Path: "/etc", Access: inside.Read},
		{Path: "/proc", Access: inside.Read},
		{Path: "/dev", Access: inside.Device},
		{Path: "/dev/shm", Access: inside.Full},
		{Path: "/tmp", Access: inside.Full},
		{Path: command.Home, Access: inside.Full},
	}
	for i := 0; i+2 < len(r.system); i += 3 {
		if r.system[i] == "--ro-bind" {
			rules = append(rules, inside.Rule{Path: r.system[i+2], Access: inside.Execute})
		}
	}
	if l.caches != nil {
		rules = append(rules, inside.Rule{Path: sandbox.CacheMount, Access: inside.Store})
	}
	if l.terminals != "" {
		rules = append(rules, inside.Rule{Path: "/dev/pts", Access: inside.Terminal})
	}
	for _, p := range l.toolchains {
		rules = append(rules, inside.Rule{Path: p.target, Access: inside.Execute})
	}
	access := inside.Full
	if l.readOnly {
		access = inside.Execute
	}
	return append(rules, inside.Rule{Path: command.WorkspaceMount, Access: access})
}
