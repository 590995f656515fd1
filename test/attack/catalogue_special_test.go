//go:build linux

package attack

// specialRows are FS-09 to FS-11, FS-14 and FS-15: files with special attributes, the
// construction of the root, data left for the next run, and variables and descriptors inherited
// from the daemon.
func specialRows() []row {
	const special = "special files, setuid, capabilities, attributes"
	rows := []row{
		{id: "FS-09", variant: "FIFO", source: special, walls: layers(copyLayer), probe: probe("fifo"), effect: inside},
		{id: "FS-09", variant: "socket", source: special, walls: layers(copyLayer), aside: layers(seccomp), probe: probe("socket"), effect: inside},
		{id: "FS-09", variant: "device node", source: special, walls: layers(seccomp, landlock), probe: probe("device")},
		{id: "FS-09", variant: "setuid by chmod", source: special, walls: layers(seccomp), probe: probe("setuid")},
		{id: "FS-09", variant: "setgid by chmod", source: special, walls: layers(seccomp), probe: probe("setgid")},
		{id: "FS-09", variant: "setuid by open", source: special, walls: layers(seccomp), probe: probe("openat")},
		{id: "FS-09", variant: "file capabilities", source: special, walls: layers(caps), probe: probe("filecap")},
		{id: "FS-09", variant: "user attribute", source: special, walls: layers(copyLayer), probe: probe("xattr"), prepare: (*scene).files, effect: inside},
		{id: "FS-09", variant: "attributes of an overlay", source: special, walls: layers(copyLayer), probe: probe("overlay"), prepare: (*scene).files, effect: inside},
		{id: "FS-09", variant: "trusted attribute", source: special, root: true, walls: layers(caps, userNS), bare: true, probe: probe("trusted")},
		{id: "FS-09", variant: "immutable flag", source: special, root: true, walls: layers(caps, userNS), bare: true, probe: probe("immutable")},
		{id: "FS-09", variant: "access list", source: special, walls: layers(copyLayer), probe: probe("acl"), prepare: (*scene).files, effect: inside},
		{id: "FS-09", variant: "inode flags", source: special, walls: layers(copyLayer), probe: probe("flags"), prepare: (*scene).files, effect: inside},
		{id: "FS-09", variant: "giant sparse file", source: special, walls: layers(rlimits), probe: probe("sparse"),
			prepare: func(c *scene) { c.spec.Limits.FileSize = 1 << 20; c.spec.Limits.Tmp = 64 << 20 }},
		{id: "FS-09", variant: "names that hide what they are", source: special, walls: layers(copyLayer), probe: probe("odd-names"), effect: inside},

		{id: "FS-10", variant: "link to /oldroot", source: "CVE-2026-87766, GHSA-pxhw-h44j-8pfx"},
		{id: "FS-11", variant: "files left behind by SIGKILL", source: "srt#139"},
	}
	for _, place := range []string{"/tmp", "/dev/shm", "/var/tmp"} {
		rows = append(rows, row{id: "FS-14", variant: place + " of another run", source: "leakage between runs", walls: layers(root, landlock),
			first: probe("leave"), probe: probe("read"), prepare: func(c *scene) { c.shareFile(place) }})
	}
	return append(rows,
		row{id: "FS-14", variant: "System V memory of another run", source: "leakage between runs", walls: layers(ipcNS),
			first: probe("shm-leave"), probe: probe("shm-find"), prepare: (*scene).sharedMemory},
		row{id: "FS-14", variant: "a terminal of the host", source: "CVE-2017-5226", walls: layers(root, landlock), probe: probe("terminal"), prepare: (*scene).terminal},
		row{id: "FS-14", variant: "/dev/tty", source: "CVE-2017-5226", walls: layers(newSession, root, landlock), probe: probe("terminal", "/dev/tty", "/host/dev/tty"), terminal: true},
		row{id: "FS-15", variant: "the daemon's environment", source: "bubblewrap#725", walls: layers(emptyEnv), probe: append(probe("variable"), steering()...)},
		row{id: "FS-15", variant: "PATH through node_modules/.bin", source: "PATH hijack", walls: layers(emptyEnv), probe: probe("search-path", "hijacked"),
			prepare: (*scene).hijack},
	)
}

// steering lists variables that make some programs run other code. TestMain sets them in its
// own environment, which is the daemon's.
func steering() []string {
	return []string{"LD_PRELOAD", "PYTHONSTARTUP", "NODE_OPTIONS", "GIT_SSH_COMMAND", "BASH_ENV", "TEST_PALYRA_CANARY"}
}
