//go:build linux

package checks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// runInit is process 1 of a machine. It makes the machine's root directory, prints "ready", and
// then is the service manager.
func runInit(root string) int {
	if err := enterRoot(root); err != nil {
		fmt.Fprintln(os.Stderr, "machine-init:", err)
		return 1
	}
	manager, err := newManager()
	if err != nil {
		fmt.Fprintln(os.Stderr, "machine-init:", err)
		return 1
	}
	fmt.Println("ready")
	manager.serve()
	return 0
}

// enterRoot makes root the root directory, with the file systems that a container has. Programs in
// it can then make user namespaces, which a mere chroot prevents.
func enterRoot(root string) error {
	steps := []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE, ""},
		{root, root, "", syscall.MS_BIND | syscall.MS_REC, ""},
		{"proc", root + "/proc", "proc", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC, ""},
		{"sysfs", root + "/sys", "sysfs", syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC, ""},
		{"tmpfs", root + "/dev", "tmpfs", syscall.MS_NOSUID, "mode=755"},
	}
	for _, s := range steps {
		if err := syscall.Mount(s.source, s.target, s.kind, s.flags, s.data); err != nil {
			return fmt.Errorf("mounting %s: %w", s.target, err)
		}
	}
	if err := makeDevices(filepath.Join(root, "dev")); err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	// The previous root is then mounted over the new one, and leaves.
	if err := syscall.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root directory: %w", err)
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the previous root directory: %w", err)
	}
	return os.Chdir("/")
}

func makeDevices(dev string) error {
	syscall.Umask(0)
	defer syscall.Umask(0o022)
	for name, minor := range map[string]int{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := syscall.Mknod(filepath.Join(dev, name), syscall.S_IFCHR|0o666, 1<<8|minor); err != nil {
			return fmt.Errorf("making the device %s: %w", name, err)
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	for name, options := range map[string][2]string{"shm": {"tmpfs", "mode=1777"}, "pts": {"devpts", "newinstance,ptmxmode=666"}} {
		if err := os.Mkdir(filepath.Join(dev, name), 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(options[0], filepath.Join(dev, name), options[0], syscall.MS_NOSUID, options[1]); err != nil {
			return fmt.Errorf("mounting %s: %w", name, err)
		}
	}
	return nil
}

// runWithoutNamespaces runs a command in a user namespace that permits no further one, as on a kernel
// whose administrator disabled them.
func runWithoutNamespaces(args []string) int {
	if os.Getenv("NAMESPACE") == "" {
		all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = append([]string{"without-namespaces"}, args...)
		cmd.Env = append(os.Environ(), "NAMESPACE=yes")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true}
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "without-namespaces:", err)
			return 1
		}
		return 0
	}
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		fmt.Fprintln(os.Stderr, "without-namespaces:", err)
		return 1
	}
	path, err := exec.LookPath(args[0])
	if err == nil {
		err = syscall.Exec(path, args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "without-namespaces:", err)
	return 1
}
