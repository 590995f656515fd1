package bubblewrap

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/inside"
)

// Identity inside: an ordinary user, so that nothing takes itself for root.
const insideID = 1000

// generated are the files of /etc that say what is true inside, not what is
// true of the host.
var generated = []struct{ name, content string }{
	{"/etc/passwd", "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\ntool:x:1000:1000:tool:" + sandbox.Home + ":/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"/etc/group", "root:x:0:\ntool:x:1000:\nnogroup:x:65534:\n"},
	{"/etc/hosts", "127.0.0.1 localhost palyra\n::1 localhost\n"},
	{"/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"},
	{"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
	{"/etc/machine-id", "00000000000000000000000000000000\n"},
}

// shared are the only entries of the host's /etc that are seen inside; none
// tells more than which packages are installed.
var shared = []string{
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki/tls/certs",
	"/etc/pki/ca-trust/extracted", "/etc/alternatives", "/etc/localtime", "/etc/mime.types", "/etc/services", "/etc/protocols",
}

// systemDirs are links into /usr on most machines, directories on others.
var systemDirs = []string{"/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32"}

// masked are entries of /proc that tell of the host and its keys.
var masked = []string{"/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/timer_list", "/proc/cmdline", "/proc/kcore", "/proc/sched_debug", "/proc/modules"}

// layout is what the arguments depend on.
type layout struct {
	// source is where bubblewrap finds the workspace.
	source   string
	readOnly bool
	// cwd is relative to the workspace.
	cwd string
	tmp int64
	// firstData is the descriptor of generated[0].
	firstData int
}

// arguments are bubblewrap's, in the order in which it carries them out.
// Nothing is mounted or created below the workspace: while it builds the root,
// bubblewrap 0.8 follows links in it to the host (CVE-2026-87766).
func arguments(l layout) []string {
	a := []string{
		"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
		"--uid", strconv.Itoa(insideID), "--gid", strconv.Itoa(insideID), "--hostname", "palyra",
		"--die-with-parent", "--new-session", "--clearenv",
		// The helper needs this one to empty the bounding set, and drops it.
		"--cap-drop", "ALL", "--cap-add", "CAP_SETPCAP",
		"--ro-bind", "/usr", "/usr",
	}
	a = append(a, systemArguments()...)
	a = append(a, etcArguments(l.firstData)...)
	a = append(a, "--proc", "/proc")
	for _, name := range masked {
		if exists(name) {
			a = append(a, "--ro-bind", "/dev/null", name)
		}
	}
	a = append(a, deviceArguments(l.tmp)...)
	size := strconv.FormatInt(l.tmp, 10)
	a = append(a,
		"--perms", "1777", "--size", size, "--tmpfs", "/tmp",
		"--perms", "0700", "--size", size, "--tmpfs", sandbox.Home,
		"--dir", "/var", "--symlink", "../tmp", "/var/tmp", "--dir", "/run",
		"--dir", sandbox.WorkspaceMount, "--remount-ro", "/",
	)
	bind := "--bind"
	if l.readOnly {
		bind = "--ro-bind"
	}
	return append(a,
		bind, l.source, sandbox.WorkspaceMount,
		"--chdir", path.Join(sandbox.WorkspaceMount, l.cwd),
		"--json-status-fd", strconv.Itoa(inside.StatusFD),
	)
}

func systemArguments() []string {
	var a []string
	for _, dir := range systemDirs {
		info, err := os.Lstat(dir)
		if err != nil {
			continue
		}
		if info.Mode()&os.ModeSymlink == 0 {
			a = append(a, "--ro-bind", dir, dir)
		} else if target, err := os.Readlink(dir); err == nil {
			a = append(a, "--symlink", target, dir)
		}
	}
	return a
}

func etcArguments(fd int) []string {
	var a []string
	for _, name := range shared {
		if source, err := filepath.EvalSymlinks(name); err == nil {
			a = append(a, "--ro-bind", source, name)
		}
	}
	for i, file := range generated {
		a = append(a, "--perms", "0444", "--ro-bind-data", strconv.Itoa(fd+i), file.name)
	}
	return a
}

// deviceArguments make /dev by hand: --dev would need a second user namespace
// for an identity other than root, and would add a terminal.
func deviceArguments(tmp int64) []string {
	a := []string{"--perms", "0755", "--size", "65536", "--tmpfs", "/dev"}
	for _, node := range []string{"null", "zero", "full", "random", "urandom"} {
		a = append(a, "--dev-bind", "/dev/"+node, "/dev/"+node)
	}
	return append(a,
		"--symlink", "/proc/self/fd", "/dev/fd", "--symlink", "/proc/self/fd/0", "/dev/stdin",
		"--symlink", "/proc/self/fd/1", "/dev/stdout", "--symlink", "/proc/self/fd/2", "/dev/stderr",
		"--perms", "1777", "--size", strconv.FormatInt(tmp, 10), "--tmpfs", "/dev/shm",
		"--remount-ro", "/dev",
	)
}

// nulTerminated is the form that --args reads.
func nulTerminated(args []string) []byte {
	return []byte(strings.Join(args, "\x00") + "\x00")
}

// landlockRules are the second wall, inside the mounts.
func landlockRules(readOnly bool) []inside.Rule {
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
	for _, dir := range systemDirs {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			rules = append(rules, inside.Rule{Path: dir, Access: inside.Execute})
		}
	}
	access := inside.Full
	if readOnly {
		access = inside.Execute
	}
	return append(rules, inside.Rule{Path: sandbox.WorkspaceMount, Access: access})
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
