package localsocket

import (
	"bytes"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// peerCredentials returns the connecting process from the kernel (SO_PEERCRED, unix(7)). A process
// that passes the open connection on is responsible for its use.
func peerCredentials(c net.Conn) (found credentials, err error) {
	err = raw(c, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			found = credentials{uid: int64(cred.Uid), pid: int(cred.Pid)}
		}
		return err
	})
	found.foreign = found.pid > 0 && !sameUsers(found.pid)
	found.near = found.pid > 0 && near(found)
	return found, err
}

// sameUsers reports whether a process is in this process's user namespace. In its own user
// namespace, which every user may create, any user can have this uid.
func sameUsers(pid int) bool {
	theirs, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/user")
	if err != nil {
		return false
	}
	ours, err := os.Readlink("/proc/self/ns/user")
	return err == nil && theirs == ours
}

// near reports whether a process runs as its uid in the pid namespace of this one. It reads
// /proc/PID/status (proc_pid_status(5)), which every user may read: the links in
// /proc/PID/ns of another user's process cannot be read without privileges.
func near(found credentials) bool {
	self, err := status("self")
	if err != nil || len(self["NSpid:"]) != 1 {
		return false // this /proc shows the processes of another pid namespace
	}
	pid, uid := strconv.Itoa(found.pid), strconv.FormatInt(found.uid, 10)
	process, err := status(pid)
	return err == nil && slices.Equal(process["NSpid:"], []string{pid}) &&
		slices.Equal(process["Uid:"], []string{uid, uid, uid, uid})
}

// status returns the fields of /proc/PID/status by their names, which end with a colon.
func status(pid string) (map[string][]string, error) {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return nil, err
	}
	fields := map[string][]string{}
	for line := range bytes.Lines(text) {
		if words := strings.Fields(string(line)); len(words) > 0 {
			fields[words[0]] = words[1:]
		}
	}
	return fields, nil
}
