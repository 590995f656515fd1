package systemd

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Main is systemctl: it executes its command line. If the variable Dir names no directory, no
// manager exists. The directory contains the received commands (log), and the process ids of the
// holder of the socket and of the service.
func Main() {
	dir := os.Getenv(Dir)
	if dir == "" {
		fmt.Fprintln(os.Stderr, "Failed to connect to bus: No medium found")
		os.Exit(1)
	}
	m := manager{dir: dir, units: filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "systemd", "user")}
	if len(os.Args) == 2 && os.Args[1] == "hold" {
		m.hold()
		return
	}
	args := os.Args[1:]
	m.log(strings.Join(args, " "))
	if len(args) < 2 || args[0] != "--user" {
		m.fail("only --user is known")
	}
	switch args[1] {
	case "show-environment", "daemon-reload":
	case "enable", "disable":
		m.links(args[1] == "enable")
		if len(args) > 2 && args[2] == "--now" {
			m.stop("service")
			m.stop("socket")
		}
	case "restart", "start":
		for _, unit := range args[2:] {
			if kind := kindOf(unit); kind == "socket" {
				m.stop("service")
				m.stop("socket")
				m.startHolder()
			} else {
				m.command("start")
			}
		}
	case "stop":
		for _, unit := range args[2:] {
			m.stop(kindOf(unit))
		}
	default:
		m.fail("unknown command " + args[1])
	}
}

type manager struct{ dir, units string }

func kindOf(unit string) string { return strings.TrimPrefix(filepath.Ext(unit), ".") }

func (m manager) fail(why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

func (m manager) log(line string) {
	f, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = fmt.Fprintln(f, line)
		_ = f.Close()
	}
}

// links creates or removes the links of [Install] below the units' directory.
func (m manager) links(enable bool) {
	for unit, target := range map[string]string{"palyrad.service": "default.target.wants", "palyrad.socket": "sockets.target.wants"} {
		wants := filepath.Join(m.units, target)
		link := filepath.Join(wants, unit)
		_ = os.Remove(link)
		if !enable {
			_ = os.Remove(wants)
			continue
		}
		if _, err := os.Stat(filepath.Join(m.units, unit)); err != nil {
			m.fail("no unit " + unit)
		}
		_ = os.MkdirAll(wants, 0o750)
		_ = os.Symlink(filepath.Join(m.units, unit), link)
	}
}

// value returns the value of a key in a unit.
func (m manager) value(unit, key string) string {
	text, err := os.ReadFile(filepath.Join(m.units, unit))
	if err != nil {
		m.fail(err.Error())
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, key+"="); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// startHolder starts the process that holds the socket, and with it the service.
func (m manager) startHolder() {
	cmd := exec.Command(os.Args[0], "hold")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		m.fail(err.Error())
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "holding" {
		m.fail("the socket: " + line)
	}
}

// hold holds the socket, and starts and ends the service by commands from a pipe.
func (m manager) hold() {
	l, err := net.Listen("tcp", m.value("palyrad.socket", "ListenStream"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		os.Exit(1)
	}
	file, err := tcp.File()
	if err != nil {
		os.Exit(1)
	}
	_ = os.WriteFile(filepath.Join(m.dir, "socket.pid"), []byte(strconv.Itoa(os.Getpid())), 0o600)
	pipe := filepath.Join(m.dir, "control")
	_ = os.Remove(pipe)
	_ = syscall.Mkfifo(pipe, 0o600)
	fmt.Println("holding")
	os.Stdout.Close()
	for {
		text, err := os.ReadFile(pipe)
		if err != nil || strings.Contains(string(text), "end") {
			return
		}
		m.startService(file)
	}
}

// startService starts palyrad by its unit, with the socket.
func (m manager) startService(socket *os.File) {
	words := strings.Fields(strings.ReplaceAll(m.value("palyrad.service", "ExecStart"), `"`, ""))
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`}, words...)...)
	cmd.Env = []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=" + m.value("palyrad.socket", "FileDescriptorName")}
	cmd.Env = append(cmd.Env, strings.Split(strings.Trim(m.value("palyrad.service", "Environment"), `"`), `" "`)...)
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "PALYRA_VAULT") || strings.HasPrefix(v, "TESTSCRIPT") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.ExtraFiles = []*os.File{socket}
	if log, err := os.Create(filepath.Join(m.dir, "palyrad.log")); err == nil {
		cmd.Stderr = log
	}
	if err := cmd.Start(); err != nil {
		m.log(err.Error())
		return
	}
	_ = os.WriteFile(filepath.Join(m.dir, "service.pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
	go func() { _ = cmd.Wait() }()
}

// command sends a command to the holder.
func (m manager) command(text string) {
	if err := os.WriteFile(filepath.Join(m.dir, "control"), []byte(text), 0o600); err != nil {
		m.fail(err.Error())
	}
}

// stop ends a process and waits for it.
func (m manager) stop(kind string) {
	path := filepath.Join(m.dir, kind+".pid")
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	pid, _ := strconv.Atoi(string(text))
	if process, err := unix.PidfdOpen(pid, 0); err == nil {
		_ = unix.PidfdSendSignal(process, unix.SIGTERM, nil, 0)
		awaitEnd(process)
		_ = unix.Close(process)
	}
	_ = os.Remove(path)
}

// awaitEnd waits until a process has ended, at most two minutes: its descriptor is then readable,
// also while it is a zombie.
func awaitEnd(process int) {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 120_000)
		if err != unix.EINTR {
			return
		}
	}
}
