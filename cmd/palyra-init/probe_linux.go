package main

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// attempts try actions that a layer forbids. Each reports whether it succeeded.
var attempts = map[string]func(args []string) (bool, string){
	inside.TryFile: func(args []string) (bool, string) {
		var st unix.Stat_t
		return outcome("a file of the host", unix.Lstat(args[0], &st))
	},
	inside.TryMapping: func(args []string) (bool, string) {
		text, err := readFile("/proc/self/uid_map")
		return err == nil && strings.Join(strings.Fields(string(text)), " ") == args[0], "uid_map: " + strings.TrimSpace(string(text))
	},
	inside.TryProcess: func(args []string) (bool, string) {
		var st unix.Stat_t
		return outcome("palyrad's process", unix.Lstat("/proc/"+args[0]+"/ns", &st))
	},
	inside.TryConnect: connect,
	inside.TrySegment: segment,
	inside.TryHostname: func(args []string) (bool, string) {
		var name unix.Utsname
		err := unix.Uname(&name)
		got := unix.ByteSliceToString(name.Nodename[:])
		return err == nil && got == args[0], "the name is " + got
	},
	inside.TryGroup: func([]string) (bool, string) {
		text, err := readFile("/proc/self/cgroup")
		return err == nil && strings.Contains(string(text), "palyra-"), "the paths of the control groups"
	},
	inside.TryRoot: func([]string) (bool, string) {
		return unix.Geteuid() == 0, "user " + strconv.Itoa(unix.Geteuid())
	},
	inside.TryCapability: func([]string) (bool, string) {
		return outcome("dropping a capability from the bounding set", unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_TTY_CONFIG, 0, 0, 0))
	},
	inside.TryPrivileges: func([]string) (bool, string) {
		set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		return err == nil && set == 0, "no_new_privs is " + strconv.Itoa(set)
	},
	inside.TryCall: func([]string) (bool, string) {
		const addrNoRandomize = 0x0040000
		_, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, addrNoRandomize, 0, 0)
		if errno != 0 {
			return outcome("personality(ADDR_NO_RANDOMIZE)", errno)
		}
		return outcome("personality(ADDR_NO_RANDOMIZE)", nil)
	},
	inside.TryWrite: func(args []string) (bool, string) {
		return outcome("writing", writeAll(args[0], unix.O_WRONLY|unix.O_CREAT, 1))
	},
	inside.TryMemory: func(args []string) (bool, string) {
		mebibytes, _ := strconv.Atoi(args[0])
		return outcome("filling temporary files", writeAll("/tmp/palyra-probe", unix.O_WRONLY|unix.O_CREAT, mebibytes))
	},
	inside.TryFiles: func(args []string) (bool, string) {
		number, _ := strconv.Atoi(args[0])
		for range number {
			if _, err := unix.Dup(0); err != nil {
				return outcome("opening many files", err)
			}
		}
		return outcome("opening many files", nil)
	},
	inside.TryKernel: func(args []string) (bool, string) {
		text, err := readFile(args[0])
		if err == nil && len(text) == 0 {
			err = unix.ENODATA
		}
		return outcome("reading "+args[0], err)
	},
	inside.TryStrays: func([]string) (bool, string) {
		count, err := strays()
		return err == nil && count > 0, strconv.Itoa(count) + " descriptors"
	},
	inside.TryEnviron: func(args []string) (bool, string) {
		first, _ := readFile("/proc/1/environ")
		_, own := os.LookupEnv(args[0])
		return own || strings.Contains("\x00"+string(first), "\x00"+args[0]+"="), "searching for the variable " + args[0]
	},
	inside.TrySession: func([]string) (bool, string) {
		session, err := unix.Getsid(0)
		return err == nil && session == 0, "session " + strconv.Itoa(session)
	},
}

// probe is the program that runs instead of the tool: one attempt.
func probe(args []string) int {
	if len(args) == 0 || attempts[args[0]] == nil {
		return 2
	}
	var a inside.Attempt
	a.Happened, a.Detail = attempts[args[0]](args[1:])
	if _, err := os.Stdout.Write(inside.Encode(&a)); err != nil {
		return 1
	}
	return 0
}

func outcome(what string, err error) (bool, string) {
	if err != nil {
		return false, what + ": " + err.Error()
	}
	return true, what + " succeeded"
}

func connect(args []string) (bool, string) {
	if len(args) != 2 {
		return outcome("reading the address", unix.EINVAL)
	}
	to := &unix.SockaddrInet4{}
	to.Port, _ = strconv.Atoi(args[1])
	for i, part := range strings.SplitN(args[0], ".", len(to.Addr)) {
		number, _ := strconv.Atoi(part)
		to.Addr[i] = byte(number)
	}
	return outcome("reaching the service at "+args[0], greeting(to))
}

// greeting connects and waits for the first byte. A connection alone proves nothing, because
// palyrad accepts it before it checks whether it is allowed.
func greeting(to unix.Sockaddr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		return err
	}
	if err := unix.Connect(fd, to); err != nil {
		return err
	}
	var b [1]byte
	n, err := unix.Read(fd, b[:])
	if err == nil && n == 0 {
		err = unix.ECONNRESET
	}
	return err
}

func segment(args []string) (bool, string) {
	id, err := strconv.Atoi(args[0])
	if err != nil {
		return outcome("finding shared memory", err)
	}
	_, err = unix.SysvShmCtl(id, unix.IPC_STAT, new(unix.SysvShmDesc))
	return outcome("finding shared memory", err)
}

func writeAll(name string, flags, mebibytes int) error {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	chunk := make([]byte, 1<<20)
	for range mebibytes {
		if _, err := unix.Write(fd, chunk); err != nil {
			return err
		}
	}
	return nil
}
