package bubblewrap

import (
	"slices"
	"strconv"

	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail"
)

// layout holds the parameters of the arguments of one sandbox.
type layout struct {
	// source is the path by which bubblewrap opens the workspace.
	source   string
	readOnly bool
	// caches are the caches. The source is the path that bubblewrap opens, the target is inside.
	caches []place
	// toolchains are the toolchain directories. The target is the path of the directory on the
	// host.
	toolchains []place
	// hostPath is an additional path that leads to the workspace; "" for none.
	hostPath string
	// terminals is the path of the run's pseudo terminals, "" for none.
	terminals string
	tmp       int64
	// files are the files of /etc.
	files []dataFile
	// filter is the descriptor of the outer system call filter, 0 for none.
	filter int
	// hostNetwork keeps the program in the host's network namespace. listens makes the helper open
	// the listeners of the proxy in the program's own network namespace, and captures makes every
	// address lead to them.
	hostNetwork, listens, captures bool
	without                        func(layer string) bool
}

type place struct{ source, target string }

// dataFile is a descriptor with the content of a file.
type dataFile struct {
	fd   int
	name string
}

// arguments returns the arguments of bubblewrap in the order of their execution. No argument
// mounts or creates a path below the workspace. bubblewrap 0.8 would follow links in the
// workspace to the host while it builds the root (CVE-2026-87766).
func (r *root) arguments(l layout) []string {
	a := namespaceArguments(l)
	a = append(a, "--die-with-parent")
	if !l.without(jail.LayerSession) {
		a = append(a, "--new-session")
	}
	if l.filter != 0 {
		a = append(a, "--add-seccomp-fd", strconv.Itoa(l.filter))
	}
	a = append(a, capabilityArguments(l)...)
	if !l.without(jail.LayerEnvironment) {
		a = append(a, "--clearenv")
	}
	a = append(a, "--ro-bind", "/usr", "/usr")
	a = append(a, r.system...)
	if l.without(jail.LayerRoot) {
		a = append(a, hostArguments()...)
	} else {
		a = append(a, r.etcArguments(l)...)
		a = append(a, "--dir", "/var", "--symlink", "../tmp", "/var/tmp")
	}
	a = append(a, "--proc", "/proc")
	if !l.without(jail.LayerMasks) {
		for _, name := range r.masks {
			a = append(a, "--ro-bind", "/dev/null", name)
		}
	}
	a = append(a, deviceArguments(l)...)
	size := strconv.FormatInt(l.tmp, 10)
	a = append(a,
		"--perms", "1777", "--size", size, "--tmpfs", "/tmp",
		"--perms", "0700", "--size", size, "--tmpfs", command.Home,
		"--dir", "/run", "--dir", command.WorkspaceMount,
	)
	for _, p := range slices.Concat(l.caches, l.toolchains) {
		a = append(a, "--dir", p.target)
	}
	if l.hostPath != "" {
		a = append(a, "--symlink", command.WorkspaceMount, l.hostPath)
	}
	a = append(a, "--remount-ro", "/")
	for _, p := range l.toolchains {
		a = append(a, "--ro-bind", p.source, p.target)
	}
	for _, c := range l.caches {
		a = append(a, "--bind", c.source, c.target)
	}
	bind := "--bind"
	if l.readOnly {
		bind = "--ro-bind"
	}
	return append(a,
		bind, l.source, command.WorkspaceMount,
		"--chdir", "/", "--json-status-fd", strconv.Itoa(inside.StatusFD),
	)
}

// capabilityArguments returns the arguments that keep the capabilities of the helper: one to
// empty the bounding set, one to limit the user namespace, the others to add routes and to listen
// at low ports. The helper drops all of them.
func capabilityArguments(l layout) []string {
	if l.without(jail.LayerCaps) {
		return []string{"--cap-add", "ALL"}
	}
	a := []string{"--cap-drop", "ALL", "--cap-add", "CAP_SETPCAP", "--cap-add", "CAP_SYS_RESOURCE"}
	if l.listens {
		a = append(a, "--cap-add", "CAP_NET_BIND_SERVICE")
	}
	if l.captures {
		a = append(a, "--cap-add", "CAP_NET_ADMIN")
	}
	return a
}

func namespaceArguments(l layout) []string {
	a := []string{"--unshare-user"}
	for _, n := range []struct{ layer, flag string }{
		{jail.LayerIPC, "--unshare-ipc"}, {jail.LayerPIDs, "--unshare-pid"}, {jail.LayerNetwork, "--unshare-net"},
		{jail.LayerUTS, "--unshare-uts"}, {jail.LayerCgroupNS, "--unshare-cgroup-try"},
	} {
		if !l.without(n.layer) && (n.layer != jail.LayerNetwork || !l.hostNetwork) {
			a = append(a, n.flag)
		}
	}
	if !l.without(jail.LayerUTS) {
		a = append(a, "--hostname", "palyra")
	}
	id := strconv.Itoa(jail.InsideID)
	if l.without(jail.LayerUID) {
		id = "0"
	}
	return append(a, "--uid", id, "--gid", id)
}

// etcArguments returns the arguments that copy files into the root. A file in the root needs no
// mount of its own. The root is made read-only at the end.
func (r *root) etcArguments(l layout) []string {
	a := append([]string{}, r.etc.binds...)
	for _, f := range l.files {
		a = append(a, "--perms", "0444", "--file", strconv.Itoa(f.fd), f.name)
	}
	if l.hostNetwork {
		a = append(a, network()...)
	}
	return a
}

// deviceArguments returns the arguments that build /dev explicitly. --dev would need a second
// user namespace for an identity other than root, and would add the terminal of palyrad.
func deviceArguments(l layout) []string {
	a := []string{"--perms", "0755", "--size", "65536", "--tmpfs", "/dev"}
	for _, node := range jail.Devices() {
		a = append(a, "--dev-bind", node, node)
	}
	if l.terminals != "" {
		a = append(a, "--dev-bind", l.terminals, "/dev/pts", "--symlink", "pts/ptmx", "/dev/ptmx")
	}
	return append(a,
		"--symlink", "/proc/self/fd", "/dev/fd", "--symlink", "/proc/self/fd/0", "/dev/stdin",
		"--symlink", "/proc/self/fd/1", "/dev/stdout", "--symlink", "/proc/self/fd/2", "/dev/stderr",
		"--perms", "1777", "--size", strconv.FormatInt(l.tmp, 10), "--tmpfs", "/dev/shm",
		"--remount-ro", "/dev",
	)
}

// hostArguments returns the arguments that mount the host's directories, and its whole root at
// /host. They are used if minimal_root is omitted.
func hostArguments() []string {
	var a []string
	for _, dir := range []string{"/etc", "/var", "/root", "/opt", "/srv", "/mnt", "/media", "/boot", "/sys"} {
		if exists(dir) {
			a = append(a, "--ro-bind", dir, dir)
		}
	}
	return append(a, "--dev-bind", "/", "/host")
}
