package disk

import (
	"bufio"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Program is the program of a run, whose open files may have no name any more.
type Program struct {
	// Processes returns the processes of the run on the host.
	Processes func() []int
	// Dir is the path of the copy of the workspace for the program.
	Dir string
}

// search adds up the removed files that a run keeps open in its copy of the workspace.
type search struct {
	program Program
	used    usage
	seen    map[identity]bool
	// hidden is true if the run may hold files that no process shows: in a message of a socket, or
	// only by a mapping, whose size says nothing about the file.
	hidden bool
}

// unlinked returns the size of the removed files that a run keeps open, and errHidden if it may
// keep others. It stops early when the size exceeds limit.
func unlinked(ctx context.Context, p Program, limit usage) (usage, error) {
	s := search{program: p, seen: map[identity]bool{}}
	for _, pid := range p.Processes() {
		// A thread may have its own table of descriptors (clone(2) without CLONE_FILES).
		tasks := "/proc/" + strconv.Itoa(pid) + "/task"
		threads, _ := os.ReadDir(tasks) // a process that has ended holds nothing
		for _, thread := range threads {
			s.descriptors(tasks + "/" + thread.Name())
			if err := ctx.Err(); err != nil || s.used.over(limit) {
				return s.used, err
			}
		}
		s.mappings(tasks + "/" + strconv.Itoa(pid) + "/maps")
	}
	if s.hidden {
		return s.used, errHidden
	}
	return s.used, nil
}

// descriptors adds the removed files among the descriptors of a thread.
func (s *search) descriptors(task string) {
	dir, err := os.Open(task + "/fd")
	if err != nil {
		s.hidden = s.hidden || errors.Is(err, os.ErrPermission)
		return
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	s.hidden = s.hidden || errors.Is(err, os.ErrPermission)
	for _, name := range names {
		var st unix.Stat_t
		path := task + "/fd/" + name
		if unix.Stat(path, &st) != nil {
			continue
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			s.file(path, st)
		case unix.S_IFSOCK:
			s.hidden = s.hidden || carries(task+"/fdinfo/"+name)
		}
	}
}

// file adds a file without a name. Files of other file systems are in memory.
func (s *search) file(path string, st unix.Stat_t) {
	id := identity{uint64(st.Dev), st.Ino}
	if st.Nlink > 0 || s.seen[id] {
		return
	}
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil || fs.Type != unix.OVERLAYFS_SUPER_MAGIC {
		return
	}
	s.seen[id] = true
	s.used.bytes += st.Blocks * blockSize
	s.used.files++
}

// carries reports whether a socket holds descriptors that were sent and not received.
func carries(info string) bool {
	text, _ := os.ReadFile(info)
	_, count, found := strings.Cut(string(text), "scm_fds:")
	count, _, _ = strings.Cut(count, "\n")
	return found && strings.TrimSpace(count) != "0"
}

// mappings looks for a mapped file without a name.
func (s *search) mappings(maps string) {
	f, err := os.Open(maps)
	if err != nil {
		return
	}
	defer f.Close()
	const removed = " (deleted)"
	for lines := bufio.NewScanner(f); !s.hidden && lines.Scan(); {
		line := lines.Text()
		s.hidden = strings.HasSuffix(line, removed) && strings.Contains(line, " "+s.program.Dir+"/")
	}
}

// accounts reports whether the kernel accounts the writes of a process to a file system in
// write_bytes (proc_pid_io(5)). It does not for tmpfs, and for others it depends on their options.
func accounts(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	switch int64(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC:
		return true
	}
	return false
}

// written returns the bytes that the processes of a run have written, including those of ended
// processes, which their parents account for (proc_pid_io(5)). It is an upper bound of the space
// that the run uses, because it includes what was overwritten or removed. Without accounted it
// also includes all of write(2), even to pipes. Unknown figures count as unlimited.
func written(p Program, accounted bool) (sum int64) {
	for _, pid := range p.Processes() {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/io")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		var calls, storage int64
		if err == nil {
			calls, storage = field(text, "wchar"), field(text, "write_bytes")
		}
		switch {
		case err != nil || calls < 0 || storage < 0:
			return unlimited
		case accounted:
			sum += storage
		default:
			sum += max(calls, storage)
		}
	}
	return sum
}

// field returns the value of a line "name: value", -1 if it is missing.
func field(text []byte, name string) int64 {
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}
