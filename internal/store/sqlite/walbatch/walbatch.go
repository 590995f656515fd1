// Package walbatch is an SQLite VFS that passes the frames of a transaction to the kernel in
// one write. SQLite writes each page of the WAL with two system calls, one for the header of
// its frame and one for the page. A governed call changes one to two dozen pages. These system
// calls take longer than the sync. (https://sqlite.org/vfs.html,
// https://sqlite.org/fileformat2.html#the_write_ahead_log)
//
// The buffer never holds the last frame of a commit. SQLite sets the database size only in the
// header of that frame; the page that follows such a header is written at once, with all frames
// before it. When SQLite treats a transaction as durable or visible to other connections, its data
// is therefore in the file, with any setting of PRAGMA synchronous. A write error belongs to that
// commit. If the process dies, the buffer contains only frames without a commit, which WAL readers
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

// name is the name of the VFS for connections.
const name = "walbatch"

const (
	// frameHeader is the size of a frame header. sizeAfterCommit is the offset in it of the
	// database size in pages, which is 0 except in the last frame of a commit.
	frameHeader     = 24
	sizeAfterCommit = 4
	// gathered is the maximum number of buffered bytes: SQLite's Unix VFS accepts no more in one
	// write. A governed call writes half of that; SQLite writes one page (at most 64 KiB) at a
	// time.
	gathered = 128<<10 - 1
)

var (
	register = sync.OnceValue(registerOnce)

	// system is the VFS of the system.
	system uintptr

	// wals are the open WAL files, by the address of SQLite's file object.
	wals sync.Map // of *wal
)

// URI returns the name with which SQLite opens the database at path over this VFS. It requires the
// flag SQLITE_OPEN_URI.
func URI(path string) (string, error) {
	if err := register(); err != nil {
		return "", err
	}
	return FileURI(path, "vfs="+name), nil
}

// FileURI returns the URI of a database file with a query, for SQLITE_OPEN_URI.
// Source: https://www.sqlite.org/uri.html.
func FileURI(path, query string) string {
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path) + "?" + query
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
		return errors.New("SQLite refused the VFS " + name)
	}
	return nil
}

// open opens a file as the system's VFS does. WAL files get their own methods.
func open(tls *libc.TLS, _, path, file uintptr, flags int32, outFlags uintptr) int32 {
	systems := at[lib.Tsqlite3_vfs](system)
	rc := (*method[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](&systems.FxOpen))(tls, system, path, file, flags, outFlags)
	if rc != lib.SQLITE_OK || flags&lib.SQLITE_OPEN_WAL == 0 {
		return rc
	}
	memory := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})+gathered))
	if memory == 0 {
		return rc // each page is then written separately
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
	// system has the methods of the system's VFS. methods is the address of the methods that SQLite
	// calls.
	system  lib.Tsqlite3_io_methods
	methods uintptr
	// buffer has the unwritten bytes from offset on; waiting is their number.
	buffer  uintptr
	waiting int32
	offset  int64
	// last is true if the frame being written is the last of a commit.
	last bool
}

func walOf(file uintptr) *wal {
	found, _ := wals.Load(file)
	w, _ := found.(*wal)
	return w
}

// write buffers bytes for the file. Every other method flushes the buffer first.
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

// flush writes the buffer. If the write fails, the buffer is discarded: SQLite rolls back its
// transaction.
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
