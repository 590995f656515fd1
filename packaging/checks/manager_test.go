//go:build linux

package checks

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A machine has no systemd, because a container can hardly run one. In its place, process 1 of the
// machine starts and stops palyrad as its unit says, and `systemctl` in the machine sends it the
// commands that the maintainer scripts use. Like systemd, it carries a command out also if the
// caller is killed meanwhile.
const (
	managerSocket = "/run/palyra-check-manager"
	unitFile      = "/usr/lib/systemd/system/palyrad.service"
	wantsLink     = "/etc/systemd/system/multi-user.target.wants/palyrad.service"
	serviceLog    = "/var/log/palyrad.log"
)

// manager is the service manager of a machine. It has one service.
type manager struct {
	listener net.Listener
	running  *exec.Cmd
	ended    chan struct{}
}

func newManager() (*manager, error) {
	if err := os.Remove(managerSocket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", managerSocket)
	return &manager{listener: listener}, err
}

// serve carries out commands, one after the other.
func (m *manager) serve() {
	for {
		conn, err := m.listener.Accept()
		if err != nil {
			return
		}
		request, err := io.ReadAll(conn)
		if err == nil {
			err = m.do(strings.Split(string(request), "\x00"))
		}
		answer := ""
		if err != nil {
			answer = err.Error()
		}
		_, _ = io.WriteString(conn, answer) // a killed caller reads no answer
		_ = conn.Close()
	}
}

// do carries out one command. Options do not matter to it, except for --now.
func (m *manager) do(args []string) error {
	var words []string
	now := false
	for _, a := range args {
		if now = now || a == "--now"; !strings.HasPrefix(a, "-") {
			words = append(words, a)
		}
	}
	if len(words) == 1 && words[0] == "daemon-reload" {
		return nil
	}
	if len(words) != 2 || strings.TrimSuffix(words[1], ".service") != "palyrad" {
		return fmt.Errorf("systemctl %q is not part of this check", args)
	}
	switch words[0] {
	case "is-active":
		if !m.active() {
			return errors.New("inactive")
		}
		return nil
	case "start":
		return m.start()
	case "stop":
		return m.stop()
	case "restart":
		return errors.Join(m.stop(), m.start())
	case "enable":
		if err := os.MkdirAll(filepath.Dir(wantsLink), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(unitFile, wantsLink); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if now {
			return m.start()
		}
		return nil
	case "disable":
		if err := os.Remove(wantsLink); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	return fmt.Errorf("systemctl %q is not part of this check", args)
}

func (m *manager) active() bool {
	if m.running == nil {
		return false
	}
	select {
	case <-m.ended:
		return false
	default:
		return true
	}
}

// start starts the program of the unit as the user of the unit, with its directories.
func (m *manager) start() error {
	if m.active() {
		return nil
	}
	unit, err := readUnit()
	if err != nil {
		return err
	}
	owner, err := user.Lookup(unit["User"])
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	for dir, mode := range map[string]string{"/var/lib/" + unit["StateDirectory"]: unit["StateDirectoryMode"], "/run/" + unit["RuntimeDirectory"]: unit["RuntimeDirectoryMode"]} {
		bits, err := strconv.ParseUint(mode, 8, 32)
		if err != nil {
			return fmt.Errorf("the unit's mode of %s: %w", dir, err)
		}
		if err := errors.Join(os.MkdirAll(dir, os.FileMode(bits)), os.Chmod(dir, os.FileMode(bits)), os.Chown(dir, uid, gid)); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(serviceLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	words := strings.Fields(unit["ExecStart"])
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LANG=C.UTF-8", "HOME=" + owner.HomeDir, "USER=" + owner.Username}
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	if err := cmd.Start(); err != nil {
		return err
	}
	m.running, m.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait() // its exit code is in the log
	}(m.ended)
	return nil
}

// stop ends the service as the unit's KillMode=mixed and TimeoutStopSec= do.
func (m *manager) stop() error {
	if !m.active() {
		return nil
	}
	if err := m.running.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-m.ended:
	case <-time.After(45 * time.Second):
		_ = syscall.Kill(-m.running.Process.Pid, syscall.SIGKILL)
		<-m.ended
	}
	return nil
}

// readUnit returns the settings of the unit.
func readUnit() (map[string]string, error) {
	text, err := os.ReadFile(unitFile)
	if err != nil {
		return nil, err
	}
	settings := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			settings[name] = value
		}
	}
	return settings, nil
}

// runSystemctl sends a command to the service manager.
func runSystemctl(args []string) int {
	conn, err := net.Dial("unix", managerSocket)
	if err != nil {
		fmt.Fprintln(os.Stderr, "systemctl:", err)
		return 1
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, strings.Join(args, "\x00")); err != nil {
		fmt.Fprintln(os.Stderr, "systemctl:", err)
		return 1
	}
	answer, err := io.ReadAll(halfClosed(conn))
	if err != nil || len(answer) > 0 {
		fmt.Fprintln(os.Stderr, "systemctl:", string(answer), err)
		return 1
	}
	return 0
}

// halfClosed ends the request, so that the manager reads all of it.
func halfClosed(conn net.Conn) net.Conn {
	_ = conn.(*net.UnixConn).CloseWrite()
	return conn
}
