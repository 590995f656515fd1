package main

import (
	"bytes"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// kinds are the names of the namespaces in /proc/self/ns.
var kinds = []string{"mnt", "pid", "net", "user", "ipc", "uts", "cgroup"}

// readBack measures this thread, which becomes the tool.
func readBack(i inside.Inner, order inside.Order) (inside.Report, error) {
	r := inside.Report{
		UID: unix.Getuid(), GID: unix.Getgid(),
		Namespaces: make(map[string]uint64, len(kinds)),
		Rlimits:    make(map[string]uint64, len(order.Rlimits)),
	}
	if err := readStatus(&r); err != nil {
		return r, fail("reading back the status", err)
	}
	score, err := readFile(oomScore)
	if err == nil {
		r.OOMScore, err = strconv.Atoi(strings.TrimSpace(string(score)))
	}
	if err != nil {
		return r, fail("reading back who is ended first", err)
	}
	for _, kind := range kinds {
		inode, err := namespace(kind)
		if err != nil {
			return r, fail("reading back the namespaces", err)
		}
		r.Namespaces[kind] = inode
	}
	for _, l := range order.Rlimits {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(l.Resource, &now); err != nil {
			return r, fail("reading back the limits", err)
		}
		if now.Max > l.Hard {
			return r, fail("reading back the limits", unix.EPERM)
		}
		r.Rlimits[l.Name] = now.Cur
	}
	if i.Landlock != nil {
		if !provesLandlock() {
			return r, fail("proving Landlock", unix.EPERM)
		}
		r.LandlockABI = i.Landlock.ABI
	}
	return r, readSurroundings(i, &r)
}

// readStatus parses /proc/thread-self/status (proc_pid_status(5)).
func readStatus(r *inside.Report) error {
	text, err := readFile("/proc/thread-self/status")
	if err != nil {
		return err
	}
	found := 0
	for line := range bytes.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(string(line)), ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		found++
		switch name {
		case "CapEff":
			r.CapEff = value
		case "CapBnd":
			r.CapBnd = value
		case "CapPrm":
			r.CapPrm = value
		case "CapInh":
			r.CapInh = value
		case "CapAmb":
			r.CapAmb = value
		case "NoNewPrivs":
			r.NoNewPrivs = value == "1"
		case "Seccomp":
			if r.Seccomp, err = strconv.Atoi(value); err != nil {
				return err
			}
		case "Seccomp_filters":
			if r.Filters, err = strconv.Atoi(value); err != nil {
				return err
			}
		default:
			found--
		}
	}
	if found != 8 {
		return unix.ENODATA
	}
	return nil
}

func readFile(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var text []byte
	chunk := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, chunk)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return text, err
		}
		text = append(text, chunk[:n]...)
	}
}

// namespace parses a link such as "net:[4026531840]".
func namespace(kind string) (uint64, error) {
	var link [64]byte
	n, err := unix.Readlink("/proc/thread-self/ns/"+kind, link[:])
	if err != nil {
		return 0, err
	}
	_, inode, _ := strings.Cut(strings.TrimSuffix(string(link[:n]), "]"), ":[")
	return strconv.ParseUint(inode, 10, 64)
}
