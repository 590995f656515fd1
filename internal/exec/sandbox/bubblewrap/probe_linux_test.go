package bubblewrap

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// probe runs one attempt inside a sandbox and prints "ok" or the error.
func probe(args []string) int {
	if len(args) == 0 {
		return 2
	}
	if args[0] == "memory" {
		return hog()
	}
	if args[0] == "linger" {
		return linger(args[1:])
	}
	if args[0] == "sleeper" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		awaitKill()
	}
	if err := attempt(args[0], args[1:]); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ok")
	return 0
}

func attempt(what string, args []string) error {
	switch what {
	case "dial":
		c, err := net.DialTimeout("tcp", args[0], 30*time.Second)
		if err == nil {
			c.Close()
		}
		return err
	case "abstract":
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Connect(fd, &unix.SockaddrUnix{Name: "@" + args[0]})
	case "loopback":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		return attempt("dial", []string{l.Addr().String()})
	case "userns":
		cmd := exec.Command("/usr/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
		return cmd.Run()
	case "mount":
		return unix.Mount("none", "/tmp", "tmpfs", 0, "")
	case "ptrace":
		return unix.PtraceAttach(1)
	case "sethostname":
		return unix.Sethostname([]byte("other"))
	case "suid":
		return suid()
	case "open-suid":
		fd, err := unix.Open("suid-file", unix.O_CREAT|unix.O_WRONLY, 0o4755)
		if err == nil {
			unix.Close(fd)
		}
		return err
	case "tiocsti":
		return ioctl(unix.TIOCSTI)
	case "tiocsti-high":
		return ioctl(unix.TIOCSTI | 1<<32)
	case "fds":
		return strayDescriptors()
	}
	return fmt.Errorf("no such probe: %s", what)
}

func suid() error {
	if err := os.WriteFile("suid-file", nil, 0o755); err != nil {
		return err
	}
	return unix.Chmod("suid-file", 0o4755)
}

func ioctl(request uintptr) error {
	c := byte('x')
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, request, uintptr(unsafe.Pointer(&c)))
	if errno == 0 {
		return nil
	}
	return errno
}

// strayDescriptors lists the file descriptors other than the standard three and the Go
// runtime's.
func strayDescriptors() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		link, err := os.Readlink("/proc/self/fd/" + e.Name())
		n, _ := strconv.Atoi(e.Name())
		if err != nil || n < 3 || link == "anon_inode:[eventpoll]" || link == "anon_inode:[eventfd]" || link == "/proc/"+strconv.Itoa(os.Getpid())+"/fd" {
			continue
		}
		fmt.Println("stray:", e.Name(), link)
	}
	return nil
}

// hog allocates and writes memory until it is stopped.
func hog() int {
	var all [][]byte
	for {
		b := make([]byte, 4<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
		if len(all) > 4096 {
			return 0
		}
	}
}

// linger leaves grandchildren in separate sessions that ignore signals or are stopped. All of
// them keep stdout open and have a token in their arguments. Then linger waits or ends.
func linger(args []string) int {
	for i := range 6 {
		cmd := exec.Command("/proc/self/exe", "sleeper", args[0])
		cmd.Args[0] = "probe"
		cmd.Stdout = os.Stdout
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
			return 1
		}
		if i%2 == 0 {
			_ = cmd.Process.Signal(syscall.SIGSTOP)
		}
	}
	fmt.Println("lingering")
	if len(args) > 1 {
		return 0
	}
	awaitKill()
	return 0
}

// awaitKill blocks until SIGUSR2, which is never sent: the process lasts until it is killed.
func awaitKill() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	<-signals
}
