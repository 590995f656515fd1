package install

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"palyra/internal/agent/files"
	"palyra/internal/cli/client"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
)

// MachineOf returns this machine, for the user who runs the program.
func MachineOf(a *client.App) (files.Machine, error) {
	home := a.Getenv("HOME")
	if home == "" && runtime.GOOS == "windows" {
		home = a.Getenv("USERPROFILE")
	}
	if !filepath.IsAbs(home) {
		return files.Machine{}, reason.Errorf(reason.ConfigInvalid, "HOME is %q, which is not an absolute path", home).WithRemedy("Set HOME to your home directory.")
	}
	return files.Machine{Home: filepath.Clean(home), OS: runtime.GOOS, Getenv: a.Getenv}, nil
}

// SiteOf returns the properties of this machine, from its configuration and its record.
func SiteOf(a *client.App, m files.Machine, c *config.Config, r *Record) Site {
	s := Site{Machine: m, Agents: c.Listen.Agents, People: people("/etc/passwd", m), HookProgram: Beside("palyra-hook"), Wait: c.Approvals.DefaultTimeout, StateDir: c.StateDir, SharedSocket: c.Listen.Hooks}
	s.Held = r.Service != nil && r.Service.Manager == ManagerSystemd
	return s
}

// The managers of a service.
const (
	ManagerSystemd  = "systemd"
	ManagerLaunchd  = "launchd"
	ManagerDetached = "detached"
)

// Beside returns the absolute path of a program of Palyra: next to this one, or in the PATH; "" for
// none.
func Beside(name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if own, err := os.Executable(); err == nil {
		if own, err = filepath.EvalSymlinks(own); err == nil {
			if path := filepath.Join(filepath.Dir(own), name); executable(path) {
				return path
			}
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	if path, err = filepath.Abs(path); err != nil {
		return ""
	}
	return path
}

// InPath reports whether an agent's program is in the PATH.
func InPath(a files.Agent) bool {
	_, err := exec.LookPath(a.Program())
	return err == nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}

// firstPerson is the first uid of regular users: lower ones are for services.
const firstPerson = 1000

// people returns the number of users of this machine. If unknown, it counts as several.
func people(passwd string, m files.Machine) int {
	switch m.OS {
	case "darwin":
		return homes("/Users", "Shared", "Guest")
	case "windows":
		return homes(filepath.Dir(m.Home), "Public", "Default", "Default User", "All Users")
	}
	f, err := os.Open(passwd)
	if err != nil {
		return 2
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 7 {
			continue
		}
		uid, err := strconv.Atoi(fields[2])
		shell := filepath.Base(fields[6])
		if err == nil && (uid >= firstPerson && uid < 65534) && shell != "nologin" && shell != "false" && shell != "" {
			n++
		}
	}
	return max(n, 1)
}

// homes returns the number of home directories.
func homes(dir string, except ...string) int {
	list, err := os.ReadDir(dir)
	if err != nil {
		return 2
	}
	n := 0
	for _, e := range list {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		other := true
		for _, name := range except {
			other = other && e.Name() != name
		}
		if other {
			n++
		}
	}
	return max(n, 1)
}
