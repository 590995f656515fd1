package bubblewrap

import (
	"path"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
)

// operands is the number of operands of each used bubblewrap option (bwrap(1)).
var operands = map[string]int{
	"--unshare-user": 0, "--unshare-ipc": 0, "--unshare-pid": 0, "--unshare-net": 0, "--unshare-uts": 0, "--unshare-cgroup-try": 0,
	"--die-with-parent": 0, "--new-session": 0, "--clearenv": 0,
	"--hostname": 1, "--uid": 1, "--gid": 1, "--cap-add": 1, "--cap-drop": 1, "--add-seccomp-fd": 1, "--perms": 1, "--size": 1,
	"--chdir": 1, "--json-status-fd": 1, "--proc": 1, "--tmpfs": 1, "--dir": 1, "--remount-ro": 1,
	"--bind": 2, "--ro-bind": 2, "--dev-bind": 2, "--symlink": 2, "--file": 2,
}

// option is one option with its operands.
type option struct {
	name string
	args []string
}

// place returns the path at which an option creates or mounts a file, or "" for none.
func (o option) place() string {
	switch o.name {
	case "--proc", "--tmpfs", "--dir", "--bind", "--ro-bind", "--dev-bind", "--symlink", "--file":
		return o.args[len(o.args)-1]
	}
	return ""
}

// parseOptions parses arguments like bubblewrap.
func parseOptions(t *testing.T, args []string) []option {
	t.Helper()
	var list []option
	for len(args) > 0 {
		n, ok := operands[args[0]]
		if !ok || len(args) <= n {
			t.Fatalf("%q is no option, or lacks an operand", args[0])
		}
		list, args = append(list, option{args[0], args[1 : n+1]}), args[n+1:]
	}
	return list
}

// FuzzArguments builds the arguments of any layout and parses them. No option creates a file
// below the workspace, which is mounted last, on a read-only root.
func FuzzArguments(f *testing.F) {
	r := must.Get(newRoot())(f)
	f.Cleanup(r.etc.close)
	layers := append(slices.Clone(layers), jail.LayerNetwork, jail.LayerCopy)
	f.Add("/home/me/work", "go", "/var/cache/palyra", int64(1<<20), uint32(0))
	f.Add("--dir", "../workspace/evil", "/x", int64(-1), ^uint32(0))
	f.Add("/a\nb", "npm", "--bind", int64(0), uint32(1<<9|1<<30))
	f.Add("/workspace", "pip/../../workspace/x", "/workspace/x", int64(1), uint32(7))
	f.Fuzz(func(t *testing.T, source, cache, dir string, tmp int64, bits uint32) {
		if strings.ContainsRune(source+dir, 0) {
			// Such a directory name is refused earlier.
			if _, err := jail.OpenDirectory(source + dir); err == nil {
				t.Fatal("a directory with a NUL in its name was opened")
			}
			return
		}
		l := layout{source: source, tmp: tmp, readOnly: bits&(1<<29) != 0, hostNetwork: bits&(1<<30) != 0, filter: int(bits >> 31 * 40)}
		l.listens = bits&(1<<28) != 0 && !l.hostNetwork
		l.without = func(layer string) bool { return bits&(1<<slices.Index(layers, layer)) != 0 }
		for i, g := range generated() {
			if !l.hostNetwork || !g.ofNetwork {
				l.files = append(l.files, dataFile{20 + i, g.name})
			}
		}
		if jail.Check(sandbox.Spec{
			Argv: []string{"x"}, Executable: tool.Executable{Path: "/x", SHA256: "sha256:0"}, Caches: []sandbox.Cache{{Name: cache, Dir: dir}},
		}) == nil {
			l.caches = []place{{dir, path.Join(sandbox.CacheMount, cache)}}
		}
		args := r.arguments(l)
		if i := slices.IndexFunc(args, func(a string) bool { return strings.ContainsRune(a, 0) }); i >= 0 {
			t.Fatalf("a NUL would split %q in two", args[i])
		}
		checkOptions(t, l, parseOptions(t, args))
	})
}

func checkOptions(t *testing.T, l layout, list []option) {
	t.Helper()
	work := slices.IndexFunc(list, func(o option) bool { return o.name != "--dir" && o.place() == command.WorkspaceMount })
	if work < 0 || list[work].args[0] != l.source || (list[work].name == "--ro-bind") != l.readOnly {
		t.Fatalf("the workspace is not mounted as it should be: %v", list)
	}
	sealed := slices.IndexFunc(list, func(o option) bool { return o.name == "--remount-ro" && o.args[0] == "/" })
	if sealed < 0 || sealed > work {
		t.Error("the root is not closed before the workspace is mounted")
	}
	for i, o := range list {
		at := o.place()
		if strings.HasPrefix(path.Clean(at), command.WorkspaceMount+"/") {
			t.Errorf("%s makes %s, below the workspace", o.name, at)
		}
		if i > work && at != "" {
			t.Errorf("%s %v comes after the workspace", o.name, o.args)
		}
		if at != "" && at != path.Clean(at) {
			t.Errorf("%s makes %q, which is no clean path", o.name, at)
		}
	}
	isolated := slices.ContainsFunc(list, func(o option) bool { return o.name == "--unshare-net" })
	if isolated == (l.hostNetwork || l.without(jail.LayerNetwork)) {
		t.Errorf("network namespace: %t, host network asked for: %t", isolated, l.hostNetwork)
	}
	drop := slices.IndexFunc(list, func(o option) bool { return o.name == "--cap-drop" && o.args[0] == "ALL" })
	add := slices.IndexFunc(list, func(o option) bool { return o.name == "--cap-add" })
	if !l.without(jail.LayerCaps) && (drop < 0 || add < drop || list[add].args[0] != "CAP_SETPCAP") {
		t.Error("capabilities are left")
	}
	for _, power := range []string{"CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE"} {
		given := slices.ContainsFunc(list, func(o option) bool { return o.name == "--cap-add" && o.args[0] == power })
		if given != l.listens && !l.without(jail.LayerCaps) {
			t.Errorf("%s: %t, listens: %t", power, given, l.listens)
		}
	}
}
