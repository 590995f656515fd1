package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"palyra/internal/core/must"
)

// TestExpectedLevel: the expected result of Settle is correct for groups of each kind. The tree
// consists of ordinary files, which the inspection does not change.
func TestExpectedLevel(t *testing.T) {
	t.Parallel()
	self, errBus := strconv.Itoa(os.Getpid()), errors.New("there is no bus")
	for name, c := range map[string]struct {
		group, controllers, handed, members, limit string
		bus                                        error
		how                                        string
		why                                        []error
	}{
		"delegated":       {group: "a/b", controllers: "cpu memory pids", handed: "memory pids", members: self, bus: errBus},
		"no controllers":  {group: "a/b", controllers: "cpu", members: self, bus: errBus},
		"alone":           {group: "a/b", controllers: "memory pids", members: self, bus: errBus, how: byLeaf},
		"of a login":      {group: "user-0.slice/session", controllers: "memory pids", members: "1\n" + self, how: byScope},
		"without systemd": {group: "user-0.slice/session", controllers: "memory pids", members: "1\n" + self, bus: errBus, why: []error{errShared, errBus}},
		"of a service":    {group: "x.service/y", controllers: "memory pids", members: "1\n" + self, why: []error{errShared, errForeign}},
		"limited":         {group: "a/b", controllers: "memory pids", members: "1\n" + self, limit: "1000", why: []error{errShared, errLimited}},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			own := filepath.Join(top, c.group)
			must.Do(t, os.MkdirAll(own, 0o755))
			for at := own; at != top; at = filepath.Dir(at) {
				must.Do(t, os.WriteFile(filepath.Join(at, "cgroup.procs"), nil, 0o600))
			}
			for file, text := range map[string]string{"cgroup.controllers": c.controllers, "cgroup.subtree_control": c.handed, "cgroup.procs": c.members, "memory.max": c.limit} {
				must.Do(t, os.WriteFile(filepath.Join(own, file), []byte(text+"\n"), 0o600))
			}
			before := everything(t, top)
			how, err := foresee(own, func() error { return c.bus })
			if how != c.how || (err != nil) != (c.why != nil) {
				t.Errorf("it says %q and %v, want %q and %v", how, err, c.how, c.why)
			}
			for _, why := range c.why {
				if !errors.Is(err, why) {
					t.Errorf("it says %v, and not %v", err, why)
				}
			}
			if after := everything(t, top); !slices.Equal(before, after) {
				t.Errorf("it changed %q to %q", before, after)
			}
		})
	}
}

// everything returns the names and file contents of a directory tree.
func everything(t *testing.T, top string) (list []string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(top, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			list = append(list, name)
			return err
		}
		list = append(list, name+": "+string(must.Get(os.ReadFile(name))(t)))
		return nil
	}))
	return list
}
