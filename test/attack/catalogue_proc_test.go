//go:build linux

package attack

import (
	"os"
	"path/filepath"
)

// procRows are FS-12 and FS-13: host information and actions through /proc, and files opened by
// inode number.
func procRows() []row {
	const proc = "bubblewrap#725, #631, CVE-2019-5736"
	rows := []row{
		{id: "FS-12", variant: "/proc/1/environ", source: proc, walls: layers(emptyEnv), aside: layers(landlock), probe: probe("environ")},
		{id: "FS-12", variant: "/proc/1/root and cwd", source: proc, walls: layers(root, landlock), probe: probe("read"),
			prepare: func(c *scene) {
				for _, way := range []string{"root", "cwd", "root/host", "cwd/host"} {
					c.args = append(c.args, "/proc/1/"+way+c.canary)
				}
			}},
		{id: "FS-12", variant: "/proc/self/exe replaced", source: proc, walls: layers(copyLayer), probe: probe("replace-self"), effect: inside},
		{id: "FS-12", variant: "/proc/N/fd", source: proc, walls: layers(closedFDs), aside: layers(landlock), probe: probe("proc-fds"), prepare: (*scene).stray},
		{id: "FS-12", variant: "/proc/1/mem", source: proc, walls: layers(landlock), aside: layers(caps), probe: probe("proc-memory")},
		{id: "FS-12", variant: "/proc/self/mountinfo", source: proc, walls: layers(copyLayer), probe: probe("mountinfo"),
			prepare: func(c *scene) { c.args = []string{filepath.Base(c.dir)} }},
		{id: "FS-13", variant: "name_to_handle_at", source: "shocker", walls: layers(seccomp), probe: probe("name-handle")},
		// Since Linux 6.11, the kernel allows the owner of a mount to do this.
		{id: "FS-13", variant: "open_by_handle_at", source: "shocker", walls: layers(seccomp, caps), probe: probe("open-handle")},
	}
	for _, entry := range []string{"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"} {
		rows = append(rows, row{id: "FS-12", variant: entry, entry: entry, source: proc, root: true, walls: layers(landlock), rootWalls: layers(otherUser),
			probe: probe("proc-open", entry, "/host"+entry)})
	}
	for _, entry := range []string{"/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/key-users", "/proc/cmdline", "/proc/modules"} {
		rows = append(rows, row{id: "FS-12", variant: entry, entry: entry, source: proc, walls: layers("proc_masks"), probe: probe("proc-entry", entry)})
	}
	return rows
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
