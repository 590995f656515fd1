package main

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// specials are attacks by files with special attributes.
func specials() map[string]attack {
	return map[string]attack{
		"fifo":       func([]string) (string, error) { return "", unix.Mkfifo("fifo", 0o666) },
		"socket":     bindSocket,
		"device":     func([]string) (string, error) { return "", unix.Mknod("/tmp/device", unix.S_IFCHR|0o666, 0) },
		"setuid":     func([]string) (string, error) { return "", withMode("/tmp/setuid", unix.S_ISUID|0o755) },
		"setgid":     func([]string) (string, error) { return "", withMode("/tmp/setgid", unix.S_ISGID|0o755) },
		"openat":     func([]string) (string, error) { return "", createWithMode("/tmp/created") },
		"filecap":    fileCapability,
		"xattr":      func([]string) (string, error) { return "", unix.Setxattr("file", "user.evil", []byte("x"), 0) },
		"trusted":    trustedAttribute,
		"immutable":  immutable,
		"overlay":    overlayAttributes,
		"acl":        accessList,
		"flags":      inodeFlags,
		"sparse":     func([]string) (string, error) { return "", sparse() },
		"odd-names":  oddNames,
		"deep":       deep,
		"many-files": manyFiles,
		"fill":       fill,
		"grow":       grow,
	}
}

// bindSocket makes a socket in the workspace.
func bindSocket([]string) (string, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	return "", unix.Bind(fd, &unix.SockaddrUnix{Name: "socket"})
}

func withMode(name string, mode uint32) error {
	if err := os.WriteFile(name, nil, 0o755); err != nil {
		return err
	}
	return unix.Chmod(name, mode)
}

func createWithMode(name string) error {
	fd, err := unix.Open(name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, unix.S_ISUID|0o755)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// fileCapability writes struct vfs_ns_cap_data of <linux/capability.h>.
func fileCapability([]string) (string, error) {
	if err := os.WriteFile("/tmp/capable", nil, 0o755); err != nil {
		return "", err
	}
	const revision2, effective = 0x02000000, 1
	data := binary.LittleEndian.AppendUint32(nil, revision2|effective)
	data = binary.LittleEndian.AppendUint32(data, 1<<unix.CAP_NET_RAW)
	data = append(data, make([]byte, 12)...)
	return "", unix.Setxattr("/tmp/capable", "security.capability", data, 0)
}

// overlayAttributes forges the attributes by which an overlay hides and redirects files.
func overlayAttributes([]string) (string, error) {
	return "", errors.Join(
		unix.Setxattr("dir", "user.overlay.opaque", []byte("y"), 0),
		unix.Setxattr("dir", "user.overlay.redirect", []byte("/../.."), 0),
		unix.Setxattr("file", "user.overlay.whiteout", []byte("y"), 0))
}

// accessList gives everyone write access (acl(5), version 2 of the format).
func accessList([]string) (string, error) {
	data := binary.LittleEndian.AppendUint32(nil, 2)
	for _, entry := range [][3]uint32{
		{1, 6, 0xffffffff}, {2, 7, uint32(os.Getuid())}, {4, 4, 0xffffffff}, {16, 7, 0xffffffff}, {32, 4, 0xffffffff},
	} {
		data = binary.LittleEndian.AppendUint16(data, uint16(entry[0]))
		data = binary.LittleEndian.AppendUint16(data, uint16(entry[1]))
		data = binary.LittleEndian.AppendUint32(data, entry[2])
	}
	return "", unix.Setxattr("file", "system.posix_acl_access", data, 0)
}

// inodeFlags sets a flag that every owner may set. The immutable flag is set by the same call.
func inodeFlags([]string) (string, error) {
	f, err := os.OpenFile("file", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	const noDump = 0x40 // FS_NODUMP_FL of <linux/fs.h>
	return "", errors.Join(unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, noDump), f.Close())
}

// trustedAttribute and immutable require privileges on the machine. They leave nothing behind,
// because they also run outside a sandbox.
func trustedAttribute([]string) (string, error) {
	f, err := os.CreateTemp("/tmp", "probe-")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	return "", errors.Join(unix.Setxattr(f.Name(), "trusted.overlay.opaque", []byte("y"), 0), f.Close())
}

func immutable([]string) (string, error) {
	f, err := os.CreateTemp("/tmp", "probe-")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	const flag = 0x10 // FS_IMMUTABLE_FL of <linux/fs.h>
	err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flag)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
	}
	return "", errors.Join(err, f.Close())
}

func sparse() error {
	f, err := os.Create("/tmp/sparse")
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(1<<31), f.Close())
}

// oddNames creates names that people would misread.
func oddNames([]string) (string, error) {
	var failed error
	for _, name := range []string{"a\nb", "esc\x1b[2J", "bad\xff\xfeutf8", "\u202etxt.exe", "-rf", " "} {
		failed = errors.Join(failed, os.WriteFile(name, []byte("x"), 0o644))
	}
	return "", failed
}
