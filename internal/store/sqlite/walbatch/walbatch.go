// Package walbatch is a VFS of SQLite that hands the frames of a transaction to the
// kernel together. SQLite writes each page of the WAL by two system calls, one for the
// header of its frame and one for the page, and a governed call changes one to two dozen
// pages: that took longer than to make them durable. (https://sqlite.org/vfs.html,
// https://sqlite.org/fileformat2.html#the_write_ahead_log)
//
// The buffer never holds the last frame of a commit: SQLite sets the size of the
// database in the header of that frame alone, and what follows such a header is written
// at once, with all that came before it. So whatever a transaction made durable or told
// other connections of is in the file when SQLite believes it to be, whatever
// PRAGMA synchronous says, and an error of the write is one of that very commit. What a
// dying process leaves in the buffer are frames without a commit, which readers of a WAL
// skip.
package walbatch

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// name is how connections choose the VFS.
const name = "walbatch"

const (
	// frameHeader is the size of the header of a frame, and sizeAfterCommit the place
	// in it of the size of the database in pages, which is 0 unless the frame is the last
	// of a commit.
	frameHeader     = 24
	sizeAfterCommit = 4
	// gathered is how many bytes of frames wait at most: SQLite's VFS of Unix takes no more
	// at once. A governed call writes half of that, SQLite a page (64 KiB) at most.
	gathered = 128<<10 - 1
)

var (
	register = sync.OnceValue(registerOnce)

	// system is the VFS of the system.
	system uintptr

	// wals are the open WAL files, by the address that SQLite has of them.
	wals sync.Map // of *wal
)

// URI is the name by which SQLite opens the database at path over this VFS. It needs
// the flag SQLITE_OPEN_URI.
func URI(path string) (string, error) {
	if err := register(); err != nil {
		return "", err
	}
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path) + "?vfs=" + name, nil
}

func registerOnce() error {
	tls := libc.NewTLS()
	defer tls.Close()
	if system = lib.Xsqlite3_vfs_find(tls, 0); system == 0 {
		return errors.New("SQLite has no VFS for this system")
	}
	called, err := libc.CString(name) // for as long as the process lives
	if err != nil {
		return err
	}
	ours := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	if ours == 0 {
		return errors.New("SQLite has no memory for the VFS " + name)
	}
	vfs := at[lib.Tsqlite3_vfs](ours)
	*vfs = *at[lib.Tsqlite3_vfs](system)
	vfs.FpNext, vfs.FzName, vfs.FxOpen = 0, called, pointer(open)
	if lib.Xsqlite3_vfs_register(tls, ours, 0) != lib.SQLITE_OK {
		return errors.New("SQLite did not take the VFS " + name)
	}
	return nil
}

// open opens a file as the system's VFS does. Those of a WAL get methods of their own.
func open(tls *libc.TLS, _, path, file uintptr, flags int32, outFlags uintptr) int32 {
	systems := at[lib.Tsqlite3_vfs](system)
	rc := (*method[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](&systems.FxOpen))(tls, system, path, file, flags, outFlags)
	if rc != lib.SQLITE_OK || flags&lib.SQLITE_OPEN_WAL == 0 {
		return rc
	}
	memory := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})+gathered))
	if memory == 0 {
		return rc // and each page is written by itself
	}
	opened := at[lib.Tsqlite3_file](file)
	w := &wal{file: file, system: *at[lib.Tsqlite3_io_methods](opened.FpMethods), methods: memory, buffer: memory + unsafe.Sizeof(lib.Tsqlite3_io_methods{})}
	methods := at[lib.Tsqlite3_io_methods](memory)
	*methods = w.system
	methods.FxWrite, methods.FxRead, methods.FxTruncate = pointer(write), pointer(read), pointer(truncate)
	methods.FxSync, methods.FxFileSize, methods.FxFileControl = pointer(makeDurable), pointer(fileSize), pointer(fileControl)
	methods.FxClose = pointer(closeFile)
	wals.Store(file, w)
	opened.FpMethods = memory
	return rc
}

// wal is an open WAL file. SQLite calls the methods of a file one at a time.
type wal struct {
	file uintptr
	// system are the methods of the system's VFS, methods is where those are that SQLite
	// calls.
	system  lib.Tsqlite3_io_methods
	methods uintptr
	// buffer has the bytes from offset on that are not written yet, waiting of them.
	buffer  uintptr
	waiting int32
	offset  int64
	// last says that the frame that is being written is the last of a commit.
	last bool
}

func walOf(file uintptr) *wal {
	found, _ := wals.Load(file)
	w, _ := found.(*wal)
	return w
}

// write takes bytes for the file. A method that is not about more bytes behind them
// writes them first.
func (w *wal) write(tls *libc.TLS, from uintptr, amount int32, offset int64) int32 {
	if amount == frameHeader {
		w.last = binary.BigEndian.Uint32(at[[frameHeader]byte](from)[sizeAfterCommit:]) != 0
	}
	if offset != w.offset+int64(w.waiting) || w.waiting+amount > gathered {
		if rc := w.flush(tls); rc != lib.SQLITE_OK {
			return rc
		}
	}
	if w.waiting == 0 {
		w.offset = offset
	}
	libc.Xmemcpy(tls, w.buffer+uintptr(w.waiting), from, libc.Tsize_t(amount))
	w.waiting += amount
	if !w.last || amount == frameHeader {
		return lib.SQLITE_OK
	}
	return w.flush(tls)
}

// flush writes what waits. What cannot be written does not wait any longer: SQLite
// rolls its transaction back.
func (w *wal) flush(tls *libc.TLS) int32 {
	if w.waiting == 0 {
		return lib.SQLITE_OK
	}
	rc := (*method[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](&w.system.FxWrite))(tls, w.file, w.buffer, w.waiting, w.offset)
	w.waiting = 0
	return rc
}

func flushed(tls *libc.TLS, file uintptr) (*wal, int32) {
	w := walOf(file)
	return w, w.flush(tls)
}

// The methods of a WAL file that SQLite calls (https://sqlite.org/c3ref/io_methods.html).

func write(tls *libc.TLS, file, from uintptr, amount int32, offset int64) int32 {
	return walOf(file).write(tls, from, amount, offset)
}

func read(tls *libc.TLS, file, into uintptr, amount int32, offset int64) int32 {
	w, rc := flushed(tls, file)
	if rc != lib.SQLITE_OK {
		return rc
	}
	return (*method[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](&w.system.FxRead))(tls, file, into, amount, offset)
}

func truncate(tls *libc.TLS, file uintptr, size int64) int32 {
	w, rc := flushed(tls, file)
	if rc != lib.SQLITE_OK {
		return rc
	}
	return (*method[func(*libc.TLS, uintptr, int64) int32](&w.system.FxTruncate))(tls, file, size)
}

func makeDurable(tls *libc.TLS, file uintptr, flags int32) int32 {
	w, rc := flushed(tls, file)
	if rc != lib.SQLITE_OK {
		return rc
	}
	return (*method[func(*libc.TLS, uintptr, int32) int32](&w.system.FxSync))(tls, file, flags)
}

func fileSize(tls *libc.TLS, file, into uintptr) int32 {
	w, rc := flushed(tls, file)
	if rc != lib.SQLITE_OK {
		return rc
	}
	return (*method[func(*libc.TLS, uintptr, uintptr) int32](&w.system.FxFileSize))(tls, file, into)
}

func fileControl(tls *libc.TLS, file uintptr, op int32, arg uintptr) int32 {
	w, rc := flushed(tls, file)
	if rc != lib.SQLITE_OK {
		return rc
	}
	return (*method[func(*libc.TLS, uintptr, int32, uintptr) int32](&w.system.FxFileControl))(tls, file, op, arg)
}

func closeFile(tls *libc.TLS, file uintptr) int32 {
	w, rc := flushed(tls, file)
	wals.Delete(file)
	closed := (*method[func(*libc.TLS, uintptr) int32](&w.system.FxClose))(tls, file)
	libc.Xfree(tls, w.methods) // and the buffer behind them
	if rc != lib.SQLITE_OK {
		return rc
	}
	return closed
}
