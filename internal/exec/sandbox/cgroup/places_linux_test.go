package cgroup

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

const hybridMounts = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 /docker/abc /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
broken line`

const hybridGroups = "8:pids:/docker/abc/own\n4:memory:/service/x\n2:cpu,cpuacct:/\n0::/system.slice/palyra.service\nbroken\n"

func TestOwnGroups(t *testing.T) {
	t.Parallel()
	got := ownGroupsFrom(hybridMounts, hybridGroups)
	want := map[string]string{
		"cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "memory": "/sys/fs/cgroup/memory/service/x",
		"pids": "/sys/fs/cgroup/pids/own", "": "/sys/fs/cgroup/unified/system.slice/palyra.service",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	const pure = "30 23 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	for path, want := range map[string]string{
		"/box/run": "/sys/fs/cgroup/run",
		// Outside of the mount's view.
		"/../other": "/sys/fs/cgroup", "/boxes/run": "/sys/fs/cgroup", "/box/../other": "/sys/fs/cgroup",
		"/box/a..b": "/sys/fs/cgroup/a..b",
	} {
		if got := ownGroupsFrom(pure, "0::"+path+"\n"); got[""] != want {
			t.Errorf("path %s: %v", path, got)
		}
	}
}

func TestAboveRuns(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]string{
		"":                                     "",
		"/c/palyra.service":                    "/c/palyra.service",
		"/c/own/palyra-12-34-5":                "/c/own",
		"/c/own/palyra-12-34-5/x":              "/c/own",
		"/c/own/palyra-12-34-5/palyra-12-34-6": "/c/own",
		// This daemon is in a run of another daemon.
		"/c/own/palyra-12-35-5":          "/c/own/palyra-12-35-5",
		"/c/palyra-1-2-3/palyra-12-34-5": "/c/palyra-1-2-3",
	} {
		if got := aboveRuns(dir, "12-34"); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}

func TestUnifiedCandidates(t *testing.T) {
	t.Parallel()
	for own, want := range map[string][]string{
		"":                          nil,
		"/c/user.slice/app":         {"/c/user.slice/app"},
		"/c/palyra.service/main":    {"/c/palyra.service/main", "/c/palyra.service"},
		"/c/x.scope/main":           {"/c/x.scope/main", "/c/x.scope"},
		"/c/system.slice/a.service": {"/c/system.slice/a.service"}, // not the slice
	} {
		if got := unifiedCandidates(own); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", own, got, want)
		}
	}
}

// A group's directory is below a mount point, for any content of the kernel's files.
func FuzzOwnGroups(f *testing.F) {
	f.Add(hybridMounts, hybridGroups)
	f.Add("30 23 0:26 / /m rw - cgroup2 cgroup2 rw\n", "0::/a/../../b\n")
	f.Fuzz(func(t *testing.T, mounts, groups string) {
		for controller, dir := range ownGroupsFrom(mounts, groups) {
			below := false
			for line := range strings.Lines(mounts) {
				_, point, controllers, ok := cgroupMount(line)
				below = below || ok && slices.Contains(controllers, controller) &&
					(dir == point || strings.HasPrefix(dir, filepath.Clean(point)) && filepath.IsAbs(point) || !filepath.IsAbs(point))
			}
			if !below {
				t.Errorf("controller %q at %q, below no mount of it", controller, dir)
			}
		}
	})
}

func FuzzFiles(f *testing.F) {
	f.Add("oom 1\noom_kill 3\n", "oom_kill")
	f.Add("12\n0\n-4\n12\n", "")
	f.Fuzz(func(t *testing.T, text, key string) {
		value := keyed(text, key)
		if value != 0 && !strings.Contains(text, key+" ") {
			t.Errorf("%q has %d for %q", text, value, key)
		}
		for _, pid := range pids(text) {
			if pid <= 0 {
				t.Errorf("%q names process %d", text, pid)
			}
		}
		if inGroup(text, key) && !strings.Contains(text, key) {
			t.Errorf("%q is taken to be in %q", text, key)
		}
	})
}

func TestFiles(t *testing.T) {
	t.Parallel()
	const events = "low 0\noom 5\noom_kill 3\noom_kill_disable 9\nbad x\n"
	for key, want := range map[string]int64{"oom": 5, "oom_kill": 3, "low": 0, "bad": 0, "none": 0, "oom_kil": 0} {
		if got := keyed(events, key); got != want {
			t.Errorf("%s = %d, want %d", key, got, want)
		}
	}
	if got := pids("1\n0\n\n-3\nx\n22\n"); !slices.Equal(got, []int{1, 22}) {
		t.Errorf("pids: %v", got)
	}
	const of = "4:memory:/a/palyra-1-2-3\n0::/b\n"
	for name, want := range map[string]bool{"palyra-1-2-3": true, "palyra-1-2-33": false, "palyra-1-2": false, "b": true, "a": true, "memory": false} {
		if got := inGroup(of, name); got != want {
			t.Errorf("inGroup(%q) = %t", name, got)
		}
	}
	name := filepath.Join(t.TempDir(), "long")
	long := strings.Repeat("12345\n", 5000)
	must.Do(t, os.WriteFile(name, []byte(long), 0o600))
	if readFile(name) != long || readFile(name+"-none") != "" {
		t.Error("a file is not read as it is")
	}
}
