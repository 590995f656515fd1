package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const mib = 1 << 20

// memory are attacks that exhaust memory of every kind. The first argument is the size in MiB.
func memory() map[string]attack {
	return map[string]attack{
		"anonymous":  sized(anonymous),
		"tmp-fill":   sized(func(n int) error { return fillFile("/tmp/fill", n) }),
		"shm-fill":   sized(func(n int) error { return fillFile("/dev/shm/fill", n) }),
		"page-cache": sized(pageCache),
		"mlock":      sized(lock),
		"pipes":      sized(pipes),
		"sockets":    sized(sockets),
	}
}

func sized(use func(n int) error) attack {
	return func(args []string) (string, error) {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d MiB are in use", n), use(n)
	}
}

// anonymous uses the memory for longer than palyrad takes to measure it.
func anonymous(n int) error {
	b, err := unix.Mmap(-1, 0, n*mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	_, err = outlast([]string{"2s", "quiet"})
	return err
}

func fillFile(name string, n int) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	chunk := make([]byte, mib)
	for range n {
		if _, err := f.Write(chunk); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// pageCache loads a whole file into memory and checks that the pages stay there.
func pageCache(n int) error {
	if err := fillFile("cached", n); err != nil {
		return err
	}
	f, err := os.Open("cached")
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, n*mib, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	sum := byte(0)
	for i := 0; i < len(b); i += os.Getpagesize() {
		sum |= b[i]
	}
	pages := make([]byte, n*mib/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&pages[0])))
	if errno != 0 {
		return errno
	}
	there := 0
	for _, p := range pages {
		there += int(p & 1)
	}
	if there < len(pages)*9/10 {
		return fmt.Errorf("%d of %d pages are in memory (%d)", there, len(pages), sum)
	}
	return nil
}

// lock locks memory, so that it cannot be swapped.
func lock(n int) error {
	b, err := unix.Mmap(-1, 0, n*mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	return unix.Mlock(b)
}

// pipes fills pipe buffers, which count against no process. A pipe whose writing end is closed keeps
// its buffer, so that it takes one descriptor.
func pipes(n int) error {
	chunk := make([]byte, mib)
	for held := 0; held < n*mib; {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_NONBLOCK); err != nil {
			return err
		}
		_, _ = unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, mib) // refused in a sandbox
		written, err := unix.Write(p[1], chunk)
		if err := errors.Join(err, unix.Close(p[1])); err != nil {
			return err
		}
		held += written
	}
	return nil
}

// sockets fills socket buffers of the kernel.
func sockets(n int) error {
	chunk := make([]byte, 64<<10)
	for held := 0; held < n*mib; {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		for {
			written, err := unix.Write(pair[0], chunk)
			if errors.Is(err, unix.EAGAIN) {
				break
			}
			if err != nil {
				return err
			}
			held += written
		}
	}
	return nil
}

// fill writes n files of one MiB into the workspace.
func fill(args []string) (string, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	for i := range n {
		if err := fillFile(fmt.Sprint("fill-", i), 1); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d MiB are written", n), nil
}

// grow writes one file of n MiB.
func grow(args []string) (string, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	return "", fillFile("/tmp/grow", n)
}

// manyFiles uses inodes rather than bytes.
func manyFiles(args []string) (string, error) {
	n := 0
	return bomb(args, func() error {
		n++
		return os.WriteFile(filepath.Join(".", fmt.Sprint("file-", n)), nil, 0o644)
	})
}

// deep creates nested directories until their path is too long.
func deep(args []string) (string, error) {
	name := strings.Repeat("d", 100)
	return bomb(args, func() error {
		return errors.Join(os.Mkdir(name, 0o755), os.Chdir(name))
	})
}
