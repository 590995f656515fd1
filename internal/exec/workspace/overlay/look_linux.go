package overlay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// bufferSize is the size of one read.
const bufferSize = 128 << 10

func typeOf(mode uint32) Type {
	switch mode & unix.S_IFMT {
	case 0:
		return None
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFLNK:
		return Symlink
	}
	return Special
}

// unchanged reports whether a file is unchanged between two stat calls.
func unchanged(a, b unix.Stat_t) bool {
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Mode == b.Mode && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}

// link returns the state of a symbolic link.
func link(dir int, name string) (State, error) {
	buffer := make([]byte, maxPath+2)
	n, err := unix.Readlinkat(dir, name, buffer)
	if err != nil {
		return State{}, err
	}
	return State{Type: Symlink, Target: string(buffer[:n]), SHA256: canonical.Digest(buffer[:n])}, nil
}

// digest computes the digest of a stream and copies it to copies.
func digest(ctx context.Context, from io.Reader, buffer []byte, copies io.Writer) (sum string, size int64, err error) {
	hash := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return "", 0, err
		}
		n, err := from.Read(buffer)
		size += int64(n)
		hash.Write(buffer[:n])
		if _, err := copies.Write(buffer[:n]); err != nil {
			return "", 0, err
		}
		if errors.Is(err, io.EOF) {
			return "sha256:" + hex.EncodeToString(hash.Sum(nil)), size, nil
		}
		if err != nil {
			return "", 0, err
		}
	}
}

// reader reads from a descriptor that the caller closes.
type reader int

func (r reader) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(r), p)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil && n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		return max(n, 0), err
	}
}

// writer writes to a descriptor that the caller closes.
type writer int

func (w writer) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n, err := unix.Write(int(w), p[done:])
		if err != nil && !errors.Is(err, unix.EINTR) {
			return done, err
		}
		done += max(n, 0)
	}
	return len(p), nil
}

// openUpper opens a file or directory of the layer. If a program removed its owner's permissions,
// they are granted while it is open.
func openUpper(dir int, name string, flags int) (int, func(), error) {
	if flags == readFile {
		if fd, err := open(dir, name, flags, 0); !errors.Is(err, unix.EACCES) {
			return fd, func() { unix.Close(fd) }, err
		}
	}
	at, err := open(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, nil, err
	}
	st, err := fstat(at)
	need := uint32(unix.S_IRUSR)
	if typeOf(st.Mode) == Dir {
		need |= unix.S_IXUSR
	}
	lent := err == nil && st.Mode&need != need
	if lent {
		err = unix.Chmod(magicLink(at), st.Mode&(permissions|extraBits)|need)
	}
	fd := -1
	if err == nil {
		fd, err = open(dir, name, flags, 0)
	}
	done := func() {
		if lent {
			_ = unix.Chmod(magicLink(at), st.Mode&(permissions|extraBits)) // it exists only in the layer
		}
		unix.Close(at)
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	if err != nil {
		done()
		return -1, nil, err
	}
	return fd, done, nil
}

// An overlay that is mounted with userxattr stores its own data in extended attributes whose
// names begin with mark. If a program sets such an attribute inside the sandbox, the kernel
// stores it under a name that begins with escaped.
const (
	mark    = "user.overlay."
	escaped = mark + "overlay."
	// trusted is the prefix of the other kind of overlay, which is not used here.
	trusted = "trusted.overlay."
)

// dirMark returns the overlay's opaque attribute of a directory: "y" hides the lower entries, "x"
// means that deleted names are marked by attributes.
func dirMark(fd int) (string, error) {
	opaque := ""
	err := forEachMark(fd, func(name string) error {
		switch name {
		case "origin", "impure", "uuid":
			return nil
		case "opaque":
			value := make([]byte, 8)
			n, err := unix.Fgetxattr(fd, mark+name, value)
			if opaque = string(value[:max(n, 0)]); err == nil && opaque != "x" && opaque != "y" {
				err = unknownMark(mark + name + "=" + opaque)
			}
			return err
		}
		return unknownMark(mark + name)
	})
	return opaque, err
}

// fileMarks reports whether the overlay marked a file as a deleted name.
func fileMarks(fd int) (white bool, err error) {
	err = forEachMark(fd, func(name string) error {
		switch name {
		case "origin":
			return nil
		case "whiteout":
			white = true
			return nil
		}
		return unknownMark(mark + name)
	})
	return white, err
}

// forEachMark calls do with each attribute of the overlay, without the prefix.
func forEachMark(fd int, do func(name string) error) error {
	list, err := attributes(fd)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(list, "\x00") {
		if strings.HasPrefix(name, trusted) {
			return unknownMark(name)
		}
		rest, ok := strings.CutPrefix(name, mark)
		if !ok || strings.HasPrefix(name, escaped) {
			continue
		}
		if err := do(rest); err != nil {
			return err
		}
	}
	return nil
}

// attributes lists the extended attributes of an open file, each terminated by a NUL. The
// program has ended, so the size does not change between the two system calls.
func attributes(fd int) (string, error) {
	n, err := unix.Flistxattr(fd, nil)
	if err != nil || n == 0 {
		if errors.Is(err, unix.EOPNOTSUPP) {
			err = nil
		}
		return "", err
	}
	list := make([]byte, n)
	n, err = unix.Flistxattr(fd, list)
	return string(list[:max(n, 0)]), err
}

func unknownMark(name string) error {
	return reason.Errorf(reason.CommitRefused, "the overlay left the unknown attribute %s", quote(name)).
		WithRemedy("Report it with the version of the kernel; nothing was committed.")
}
