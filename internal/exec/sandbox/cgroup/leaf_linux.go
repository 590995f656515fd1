package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// leafName is the group that the daemon moves into, next to the groups of its runs.
const leafName = "palyrad"

// The reasons why the daemon cannot move into a leaf.
var (
	errShared   = errors.New("other processes are in palyrad's control group")
	errForeign  = errors.New("palyrad's systemd unit is not delegated to it (Delegate=yes)")
	errNoGroups = errors.New("palyrad cannot create control groups")
	errLimited  = errors.New("palyrad's control group has a memory limit, which would not apply in another group")
)

// Settle makes the unified hierarchy usable for runs. A group with processes cannot pass on
// controllers, so the calling process moves into a leaf of its own group if no other process is
// in that group. Otherwise ask may move the process into another group, such as a systemd
// scope, and Settle tries again there. Settle does nothing if runs already have controllers, or
// if the unified hierarchy has none.
func Settle(ask func(slice string) error) error {
	own := ownGroups()[""]
	if !lacking(own) {
		return nil
	}
	err := moveToLeaf(own, limiters...)
	if err == nil {
		return nil
	}
	switch stay := mayLeave(own); {
	case errors.Is(err, stay):
		return err
	case stay != nil:
		return errors.Join(err, stay)
	}
	if asked := ask(sliceOf(own)); asked != nil {
		return errors.Join(err, asked)
	}
	return moveToLeaf(ownGroups()[""], limiters...)
}

// mayLeave returns the reason why the daemon must stay below its group, nil if it may move into
// a scope next to the group. systemd considers a service ended when its process is in another
// group. The limits of a group apply to every process that is started in it. The limits of a
// user, and for root the limits of the slice, also apply in the scope.
func mayLeave(own string) error {
	for dir := own; isGroup(dir); dir = filepath.Dir(dir) {
		name := filepath.Base(dir)
		switch {
		case strings.HasPrefix(name, "user@"), strings.HasPrefix(name, "user-"), os.Geteuid() == 0 && filepath.Ext(name) == ".slice":
			return nil
		case filepath.Ext(name) == ".service":
			return errForeign
		case number(readFile(filepath.Join(dir, "memory.max"))) > 0, number(readFile(filepath.Join(dir, "memory.high"))) > 0:
			return errLimited
		}
	}
	return nil
}

// lacking reports whether a group has controllers for runs but does not pass them on yet.
func lacking(own string) bool {
	return own != "" && offers(own, limiters...) &&
		!slices.ContainsFunc(unifiedCandidates(own), func(dir string) bool { return handsDown(dir, limiters...) })
}

// moveToLeaf moves the calling process into a group below its own and makes its own group pass on
// the controllers. After an error the process is in its original group.
func moveToLeaf(own string, controllers ...string) error {
	if err := mayDivide(own); err != nil {
		return err
	}
	leaf := filepath.Join(own, leafName)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return errors.Join(errNoGroups, err)
	}
	self := strconv.Itoa(os.Getpid())
	err := writeFile(filepath.Join(leaf, "cgroup.procs"), self)
	if err == nil {
		err = writeFile(filepath.Join(own, "cgroup.subtree_control"), "+"+strings.Join(controllers, " +"))
	}
	if err == nil && handsDown(own, controllers...) {
		return nil
	}
	return errors.Join(errNoGroups, err, writeFile(filepath.Join(own, "cgroup.procs"), self), removeDir(leaf))
}

// mayDivide returns the reason why the daemon does not move into a leaf of its group, nil if it
// may.
func mayDivide(own string) error {
	if !delegated(own) {
		return errForeign
	}
	if members := pids(readFile(filepath.Join(own, "cgroup.procs"))); len(members) != 1 || members[0] != os.Getpid() {
		return errShared
	}
	return nil
}

// limiters are the controllers that runs need on the unified hierarchy.
var limiters = []string{"memory", "pids"}

// handsDown reports whether a group passes on the controllers to its subgroups.
func handsDown(dir string, controllers ...string) bool {
	return lists(filepath.Join(dir, "cgroup.subtree_control"), controllers)
}

// offers reports whether a group has the controllers.
func offers(dir string, controllers ...string) bool {
	return lists(filepath.Join(dir, "cgroup.controllers"), controllers)
}

func lists(file string, controllers []string) bool {
	words := strings.Fields(readFile(file))
	return !slices.ContainsFunc(controllers, func(c string) bool { return !slices.Contains(words, c) })
}

// delegated reports whether the daemon may divide a group. systemd marks delegated units with
// an attribute. root can write to any group, but systemd would revert its changes.
func delegated(dir string) bool {
	switch filepath.Ext(dir) {
	case ".service", ".scope":
	default:
		return true
	}
	if os.Geteuid() != 0 {
		return unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil
	}
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		var value [1]byte
		if n, err := unix.Getxattr(dir, name, value[:]); err == nil && n == 1 && value[0] == '1' {
			return true
		}
	}
	return false
}

// sliceOf returns the systemd slice that contains a group, "" for none.
func sliceOf(dir string) string {
	for ; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if filepath.Ext(dir) == ".slice" {
			return filepath.Base(dir)
		}
	}
	return ""
}
