//go:build linux

package attack

import (
	"strings"

	"palyra/internal/exec/sandbox"
)

// namespaceRows are NS-01 and NS-02: privileges over mounts, namespaces and other processes.
func namespaceRows() []row {
	var rows []row
	const escape = "landrun#43, nono#781"
	for _, call := range []string{"unshare", "clone", "clone3"} {
		rows = append(rows, row{id: "NS-01", variant: call + " of a user namespace", source: escape, walls: layers(seccomp), probe: probe(call, "user")})
		for _, kind := range []string{"mnt", "pid", "net", "ipc", "uts", "cgroup"} {
			rows = append(rows, row{id: "NS-01", variant: call + " of a namespace: " + kind, source: escape, walls: layers(seccomp, caps), probe: probe(call, kind)})
		}
	}
	rows = append(rows, row{id: "NS-01", variant: "unshare of a namespace: time", source: escape, walls: layers(seccomp, caps), probe: probe("unshare", "time")})
	for _, kind := range []string{"net", "ipc", "uts"} {
		rows = append(rows, row{id: "NS-01", variant: "setns: " + kind, source: escape, walls: layers(seccomp, caps), probe: probe("setns", kind)})
	}
	for _, call := range []string{"mount", "bind", "remount", "umount", "pivot-root", "move-mount"} {
		rows = append(rows, row{id: "NS-01", variant: call, source: escape, walls: layers(seccomp, caps, landlock), probe: probe(call)})
	}
	for _, call := range []string{"chroot", "fsopen", "fsmount", "fspick", "open-tree", "mount-setattr", "sethostname"} {
		rows = append(rows, row{id: "NS-01", variant: call, source: escape, walls: layers(seccomp, caps), probe: probe(call)})
	}

	const others = "nono#781, greywall#55"
	for _, call := range []string{"pidfd-get", "kcmp"} {
		rows = append(rows, row{id: "NS-02", variant: call, source: others, walls: layers(seccomp), probe: probe(call)})
	}
	// Processes of the run may trace each other. A user namespace cannot be omitted, so the control
	// runs outside.
	for _, call := range []string{"ptrace", "vm-read", "vm-write"} {
		rows = append(rows, row{id: "NS-02", variant: call + " of a process outside", source: others, walls: layers(pidNS, landlock, userNS), bare: true,
			probe: probe(call), prepare: (*scene).signalTarget})
	}
	for _, call := range []string{"kill", "tgkill", "pidfd-kill"} {
		rows = append(rows, row{id: "NS-02", variant: call + " of a process outside", source: others, walls: layers(pidNS, landlock), rootWalls: layers(otherUser),
			probe: probe(call), prepare: (*scene).signalTarget})
	}
	return append(rows, row{id: "NS-02", variant: "tcsetpgrp", source: others, walls: layers(newSession, root, landlock),
		probe: probe("take-terminal", "/dev/tty", "/host/dev/tty"), terminal: true})
}

// kernelRows are NS-03 to NS-07: calls that change the machine, and calls through system call
// tables that a filter does not cover.
func kernelRows() []row {
	var rows []row
	for _, r := range []struct{ id, variant, probe, source string }{
		{"NS-03", "TIOCSTI", "tiocsti", "CVE-2017-5226, bubblewrap#142"},
		{"NS-03", "TIOCSTI with a high bit", "tiocsti-high", "CVE-2019-7303, CVE-2019-10063"},
		{"NS-03", "TIOCLINUX", "tioclinux", "bubblewrap#150"},
		{"NS-03", "TIOCLINUX with a high bit", "tioclinux-high", "CVE-2019-7303, CVE-2019-10063"},
		{"NS-04", "io_uring SOCKET", "ring-socket", "io_uring"},
		{"NS-04", "io_uring CONNECT", "ring-connect", "io_uring"},
		{"NS-04", "io_uring OPENAT", "ring-openat", "io_uring"},
		{"NS-06", "keyctl", "keyctl", "keyrings"},
		{"NS-06", "add_key", "add-key", "keyrings"},
		{"NS-06", "request_key", "request-key", "keyrings"},
		{"NS-06", "bpf", "bpf", "bpf"},
		{"NS-06", "perf_event_open", "perf", "perf"},
		{"NS-06", "userfaultfd", "userfaultfd", "userfaultfd"},
		{"NS-06", "quotactl", "quotactl", "kernel"},
		{"NS-06", "swapon", "swapon", "kernel"},
		{"NS-06", "settimeofday", "settimeofday", "kernel"},
		{"NS-06", "clock_settime", "clock-settime", "kernel"},
		{"NS-06", "adjtimex", "adjtimex", "kernel"},
		{"NS-06", "fanotify_init", "fanotify", "kernel"},
		{"NS-07", "memfd_create and execveat", "memfd-exec fd", "fileless execution"},
		{"NS-07", "memfd_create and execve", "memfd-exec path", "fileless execution"},
		{"NS-07", "personality(READ_IMPLIES_EXEC)", "personality", "personality"},
	} {
		rows = append(rows, row{id: r.id, variant: r.variant, source: r.source, walls: layers(seccomp), probe: strings.Fields(r.probe)})
	}
	rows = append(rows, row{id: "NS-06", variant: "reboot", source: "kernel", walls: layers(seccomp, caps), probe: probe("reboot")})
	// These calls check for the capability over the whole machine first.
	for _, call := range []string{"syslog", "kexec", "init-module", "finit-module", "delete-module", "acct", "swapoff"} {
		rows = append(rows, row{id: "NS-06", variant: call, source: "kernel", root: true, walls: layers(seccomp, userNS), bare: true, probe: probe(call)})
	}
	return append(rows,
		row{id: "NS-03", variant: "TIOCSCTTY where no terminal belongs to the run", source: "bubblewrap#555", walls: layers(seccomp), probe: probe("tiocsctty"),
			prepare: func(c *scene) { c.spec.Workspace = sandbox.ReadOnly }},
		row{id: "NS-05", variant: "x32", arch: "amd64", source: "seccomp(2)", walls: layers(seccomp), probe: probe("x32")},
		row{id: "NS-06", variant: "iopl", arch: "amd64", source: "kernel", walls: layers(seccomp), probe: probe("iopl")},
		row{id: "NS-05", variant: "int 0x80", arch: "amd64", source: "seccomp(2)", walls: layers(seccomp), probe: probe("int80")})
}

// socketRows are NS-08 and NS-09: received descriptors, and the control sockets of the host's
// services.
func socketRows() []row {
	rows := []row{
		{id: "NS-08", variant: "inherited descriptor", source: "bubblewrap#83", walls: layers(closedFDs), probe: probe("stray"), prepare: (*scene).stray},
		{id: "NS-08", variant: "descriptor over a socket", source: "SCM_RIGHTS", walls: layers(seccomp), probe: probe("receive-rights"), prepare: (*scene).handOut},
		{id: "NS-08", variant: "connected again", source: "trpc#2426", walls: layers(seccomp, landlock, netNS), probe: probe("unix-datagram"), prepare: (*scene).datagrams},
	}
	const services = "landrun#43, nono#781, greywall#55, kilocode#11650"
	for _, service := range []struct{ variant, socket string }{
		{"dbus, session", "run/user/bus"}, {"dbus, system", "run/dbus/system_bus_socket"}, {"systemd", "run/systemd/private"},
		{"docker", "run/docker.sock"}, {"podman", "run/podman/podman.sock"}, {"containerd", "run/containerd/containerd.sock"},
		{"snapd", "run/snapd.socket"}, {"gpg-agent", "home/.gnupg/S.gpg-agent"}, {"ssh-agent", "tmp/ssh-x/agent"},
		{"X11", "tmp/.X11-unix/X0"}, {"Wayland", "run/user/wayland-0"},
	} {
		rows = append(rows, row{id: "NS-09", variant: service.variant, source: services, walls: layers(seccomp, root), probe: probe("unix-connect"),
			prepare: func(c *scene) { c.service(service.socket) }})
	}
	// A socket in a copy of the workspace is another file than the one that its server listens on.
	for _, name := range []string{"agent.sock", ".git/fsmonitor--daemon.ipc"} {
		for mode, walls := range map[sandbox.WorkspaceMode][]string{
			sandbox.CopyOnWrite: layers(seccomp, copyLayer), sandbox.ReadOnly: layers(seccomp), sandbox.Direct: layers(seccomp),
		} {
			rows = append(rows, row{id: "NS-09", variant: "workspace/" + name + ", " + string(mode), source: services, walls: walls, probe: probe("unix-connect"),
				prepare: func(c *scene) { c.serviceInside(name, mode) }})
		}
	}
	for _, mode := range []sandbox.WorkspaceMode{sandbox.ReadOnly, sandbox.Direct} {
		for _, socket := range []string{"run/docker.sock", "run/user/bus", "tmp/ssh-x/agent"} {
			rows = append(rows, row{id: "NS-09", variant: socket + ", " + string(mode), source: services, walls: layers(seccomp, root), probe: probe("unix-connect"),
				prepare: func(c *scene) { c.spec.Workspace = mode; c.service(socket) }})
		}
		rows = append(rows, row{id: "NS-09", variant: "abstract socket, " + string(mode), source: services, walls: layers(seccomp, landlock, netNS), probe: probe("abstract"),
			prepare: func(c *scene) { c.spec.Workspace = mode; c.abstract() }})
	}
	return append(rows,
		row{id: "NS-09", variant: "abstract socket", source: services, walls: layers(seccomp, landlock, netNS), probe: probe("abstract"), prepare: (*scene).abstract})
}
