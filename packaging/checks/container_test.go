//go:build linux

package checks

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// container is a container that crun runs: an image or a root directory, with the restrictions that
// container runtimes commonly set.
type container struct {
	t    *testing.T
	name string
	// dir has the bundle, and root the root directory.
	dir, root string
	config    runtimeConfig
}

// The part of the OCI runtime specification that these checks use.
type (
	runtimeConfig struct {
		Version string         `json:"ociVersion"`
		Process runtimeProcess `json:"process"`
		Root    struct {
			Path     string `json:"path"`
			ReadOnly bool   `json:"readonly"`
		} `json:"root"`
		Mounts []runtimeMount `json:"mounts"`
		Linux  runtimeLinux   `json:"linux"`
	}
	runtimeProcess struct {
		User struct {
			UID int `json:"uid"`
			GID int `json:"gid"`
		} `json:"user"`
		Args            []string            `json:"args"`
		Env             []string            `json:"env"`
		Cwd             string              `json:"cwd"`
		Capabilities    map[string][]string `json:"capabilities"`
		NoNewPrivileges bool                `json:"noNewPrivileges"`
	}
	runtimeMount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options"`
	}
	runtimeLinux struct {
		Namespaces  []map[string]string `json:"namespaces"`
		MaskedPaths []string            `json:"maskedPaths,omitempty"`
		Seccomp     *seccomp            `json:"seccomp,omitempty"`
	}
	seccomp struct {
		DefaultAction string           `json:"defaultAction"`
		Syscalls      []map[string]any `json:"syscalls"`
	}
)

// defaultCapabilities are the capabilities that container runtimes give to root.
var defaultCapabilities = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"}

// defaultSeccomp refuses new namespaces and mounts, as the default profiles of container runtimes do.
func defaultSeccomp() *seccomp {
	refuse := func(errno int, names ...string) map[string]any {
		return map[string]any{"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno}
	}
	profile := &seccomp{DefaultAction: "SCMP_ACT_ALLOW", Syscalls: []map[string]any{
		refuse(int(syscall.EPERM), "unshare", "setns", "mount", "umount2", "pivot_root", "open_tree", "move_mount", "fsopen", "fsmount", "mount_setattr"),
		refuse(int(syscall.ENOSYS), "clone3"), // the C library then uses clone
	}}
	for _, flag := range []int{syscall.CLONE_NEWNS, syscall.CLONE_NEWCGROUP, syscall.CLONE_NEWUTS, syscall.CLONE_NEWIPC, syscall.CLONE_NEWUSER, syscall.CLONE_NEWPID, syscall.CLONE_NEWNET} {
		rule := refuse(int(syscall.EPERM), "clone")
		rule["args"] = []map[string]any{{"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}}
		profile.Syscalls = append(profile.Syscalls, rule)
	}
	return profile
}

// newContainer returns a container on a root directory, without network. restricted adds the usual
// seccomp profile and masked paths.
func newContainer(t *testing.T, root string, restricted bool) *container {
	t.Helper()
	c := &container{t: t, name: fmt.Sprintf("check-%d", time.Now().UnixNano()), dir: t.TempDir(), root: root}
	c.config.Version = "1.0.2"
	c.config.Root.Path = root
	c.config.Process.Cwd = "/"
	c.config.Mounts = []runtimeMount{
		{"/proc", "proc", "proc", []string{"nosuid", "noexec", "nodev"}},
		{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "mode=755"}},
		{"/dev/pts", "devpts", "devpts", []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666"}},
		{"/dev/shm", "tmpfs", "shm", []string{"nosuid", "noexec", "nodev", "mode=1777"}},
		{"/sys", "sysfs", "sysfs", []string{"nosuid", "noexec", "nodev", "ro"}},
		{"/tmp", "tmpfs", "tmpfs", []string{"nosuid", "nodev", "mode=1777"}},
	}
	for _, kind := range []string{"pid", "mount", "ipc", "uts", "network"} {
		c.config.Linux.Namespaces = append(c.config.Linux.Namespaces, map[string]string{"type": kind})
	}
	if restricted {
		c.config.Linux.Seccomp = defaultSeccomp()
		c.config.Linux.MaskedPaths = []string{"/proc/kcore", "/proc/keys", "/proc/timer_list"}
		c.config.Process.NoNewPrivileges = true
	}
	return c
}

// capabilities gives the container's first process capabilities, as a runtime gives them to root.
func (c *container) capabilities(names []string) {
	c.config.Process.Capabilities = map[string][]string{"bounding": names, "effective": names, "permitted": names}
}

func (c *container) bind(source, destination string, options ...string) {
	c.config.Mounts = append(c.config.Mounts, runtimeMount{destination, "bind", source, append([]string{"bind"}, options...)})
}

func (c *container) crun(args ...string) *exec.Cmd {
	return exec.CommandContext(c.t.Context(), "crun", append([]string{"--root", filepath.Join(runDir, "crun"), "--cgroup-manager=disabled"}, args...)...)
}

func (c *container) writeConfig(args []string) {
	c.t.Helper()
	c.config.Process.Args = args
	data := must(json.Marshal(c.config))(c.t)
	do(c.t, os.WriteFile(filepath.Join(c.dir, "config.json"), data, 0o600))
}

// run runs a command as the container's only process.
func (c *container) run(args ...string) result {
	c.t.Helper()
	c.writeConfig(args)
	return outcome(c.t, c.crun("run", "--bundle", c.dir, c.name))
}

// start starts a command that runs until the case ends.
func (c *container) start(args ...string) {
	c.t.Helper()
	c.writeConfig(args)
	log := must(os.Create(filepath.Join(c.dir, "log")))(c.t)
	defer log.Close()
	cmd := c.crun("run", "--bundle", c.dir, c.name)
	cmd.Stdout, cmd.Stderr = log, log
	do(c.t, cmd.Start())
	c.t.Cleanup(func() {
		_ = exec.Command("crun", "--root", filepath.Join(runDir, "crun"), "--cgroup-manager=disabled", "delete", "--force", c.name).Run() // it may have ended
		_ = cmd.Wait()
	})
}

// exec runs a command in the started container, as its user and with its environment.
func (c *container) exec(args ...string) result {
	c.t.Helper()
	process := c.config.Process
	words := []string{"exec", "--user", fmt.Sprintf("%d:%d", process.User.UID, process.User.GID)}
	for _, variable := range process.Env {
		words = append(words, "--env", variable)
	}
	return outcome(c.t, c.crun(append(append(words, c.name), args...)...))
}

func (c *container) log() string {
	data, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(data)
}
