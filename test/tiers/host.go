package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// hostState is the state of the host that tests must not change: every entry of /etc, and the
// null device. Tests also run as root, so that a faulty test can overwrite the password file.
// Entries that this user may not read are left out.
type hostState struct {
	etc, null string
	entries   map[string]string
}

// lookAtHost records the state. It is empty on systems other than Linux, where no test could change
// it.
func lookAtHost(etc, null string) (hostState, error) {
	h := hostState{etc: etc, null: null}
	if runtime.GOOS != "linux" {
		return h, nil
	}
	var err error
	h.entries, err = entriesBelow(etc)
	return h, err
}

// changes returns the entries that differ from the recorded state.
func (h hostState) changes() []string {
	if h.entries == nil {
		return nil
	}
	now, err := entriesBelow(h.etc)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", h.etc, err)}
	}
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(h.entries)) {
		if now[name] != h.entries[name] {
			changed = append(changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, ok := h.entries[name]; !ok {
			changed = append(changed, name)
		}
	}
	if problem := nullProblem(h.null); problem != "" {
		changed = append(changed, problem)
	}
	return changed
}

// entriesBelow returns kind, mode, owner, target and content of each entry.
func entriesBelow(dir string) (map[string]string, error) {
	entries := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsPermission(err) || os.IsNotExist(err) {
				return nil
			}
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it is gone again
		}
		text := info.Mode().String() + owner(info)
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(name)
			text += " to " + target
		case d.Type().IsRegular():
			if content, err := os.ReadFile(name); err == nil {
				text += fmt.Sprintf(" %x", sha256.Sum256(content))
			}
		}
		entries[name] = text
		return nil
	})
	return entries, err
}

// nullProblem returns the fault of the null device, or "". See null(4).
func nullProblem(name string) string {
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Sprintf("%s is not the null device: %v", name, err)
	}
	if device := deviceOf(info); !strings.HasPrefix(info.Mode().String(), "Dc") || device != 1<<8|3 {
		return fmt.Sprintf("%s is not the null device (character special file 1:3) but %v, device %d:%d", name, info.Mode(), device>>8, device&0xff)
	}
	return ""
}
