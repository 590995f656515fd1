//go:build cgo && unix

package main

import (
	"crypto/rand"
	"time"

	"palyra/internal/exec/wasm/wire"
)

// The error numbers of preview 1 in use. Source: WASI preview 1, witx/typenames.witx.
const (
	errnoSuccess = 0
	errnoBadf    = 8
	errnoFault   = 21
	errnoInval   = 28
	errnoNosys   = 52
	errnoNotdir  = 54
	errnoNotsock = 57
	errnoNotsup  = 58
	errnoSpipe   = 70
)

// wasi is preview 1 for a program that has only standard streams, its name, a clock and
// randomness.
var wasi = map[string]function{
	"args_get": argsGet, "args_sizes_get": argsSizesGet, "environ_get": func(*host, memory, []uint64) uint64 { return errnoSuccess },
	"environ_sizes_get": func(_ *host, m memory, a []uint64) uint64 { return both(m, a, 0, 0) },
	"clock_res_get":     clockResGet, "clock_time_get": clockTimeGet,
	"fd_read": fdRead, "fd_write": fdWrite, "fd_close": fdClose, "fd_fdstat_get": fdStatGet,
	"fd_advise": ofStream(errnoSpipe), "fd_allocate": ofStream(errnoSpipe), "fd_datasync": ofStream(errnoInval),
	"fd_fdstat_set_flags": ofStream(errnoNotsup), "fd_fdstat_set_rights": ofStream(errnoNotsup),
	"fd_filestat_get": fdFilestatGet, "fd_filestat_set_size": ofStream(errnoInval), "fd_filestat_set_times": ofStream(errnoNotsup),
	"fd_pread": ofStream(errnoSpipe), "fd_prestat_get": none(errnoBadf), "fd_prestat_dir_name": none(errnoBadf), "fd_pwrite": ofStream(errnoSpipe),
	"fd_readdir": ofStream(errnoNotdir), "fd_renumber": ofStream(errnoNotsup), "fd_seek": ofStream(errnoSpipe), "fd_sync": ofStream(errnoInval),
	"fd_tell":               ofStream(errnoSpipe),
	"path_create_directory": ofStream(errnoNotdir), "path_filestat_get": ofStream(errnoNotdir), "path_filestat_set_times": ofStream(errnoNotdir),
	"path_link": ofStream(errnoNotdir), "path_open": ofStream(errnoNotdir), "path_readlink": ofStream(errnoNotdir),
	"path_remove_directory": ofStream(errnoNotdir), "path_rename": ofStream(errnoNotdir), "path_unlink_file": ofStream(errnoNotdir),
	"path_symlink": none(errnoBadf),
	"poll_oneoff":  pollOneoff, "proc_exit": procExit, "proc_raise": none(errnoNosys), "sched_yield": none(errnoSuccess), "random_get": randomGet,
	"sock_accept": ofStream(errnoNotsock), "sock_recv": ofStream(errnoNotsock), "sock_send": ofStream(errnoNotsock), "sock_shutdown": ofStream(errnoNotsock),
}

// none returns a function with a constant result.
func none(errno uint64) function { return func(*host, memory, []uint64) uint64 { return errno } }

// ofStream returns errno for a stream, and an error for any other descriptor.
func ofStream(errno uint64) function {
	return func(_ *host, _ memory, a []uint64) uint64 {
		if a[0] > 2 {
			return errnoBadf
		}
		return errno
	}
}

// ok returns success if the write was inside of the memory.
func ok(wrote bool) uint64 {
	if wrote {
		return errnoSuccess
	}
	return errnoFault
}

// both writes two numbers to the two given addresses.
func both(m memory, a []uint64, first, second uint32) uint64 {
	return ok(m.put32(uint32(a[0]), first) && m.put32(uint32(a[1]), second))
}

// argsSizesGet and argsGet return the tool's name as the program name.
func argsSizesGet(h *host, m memory, a []uint64) uint64 {
	return both(m, a, 1, uint32(len(h.guest.order.Tool)+1))
}

func argsGet(h *host, m memory, a []uint64) uint64 {
	return ok(m.put32(uint32(a[0]), uint32(a[1])) && m.write(uint32(a[1]), append([]byte(h.guest.order.Tool), 0)))
}

// clocks is the number of clocks in preview 1: realtime, monotonic, and those of the processor.
const clocks = 4

func clockResGet(_ *host, m memory, a []uint64) uint64 {
	if a[0] >= clocks {
		return errnoInval
	}
	return ok(m.put64(uint32(a[1]), tick))
}

func clockTimeGet(h *host, m memory, a []uint64) uint64 {
	if a[0] >= clocks {
		return errnoInval
	}
	return ok(m.put64(uint32(a[2]), uint64(h.guest.now())))
}

// now returns the time in nanoseconds since 1970: the real time with a grant, a counter without.
func (g *guest) now() int64 {
	if g.order.Clock {
		g.end.Clock++
		return time.Now().UnixNano()
	}
	g.clock += tick
	return g.clock
}

func randomGet(h *host, m memory, a []uint64) uint64 {
	to, there := m.slice(uint32(a[0]), uint32(a[1]))
	if !there {
		return errnoFault
	}
	h.guest.fill(to)
	return errnoSuccess
}

// fill writes random bytes: real ones with a grant, otherwise from a stream seeded by the call.
func (g *guest) fill(to []byte) {
	if g.order.Random {
		g.end.Random++
		_, _ = rand.Read(to) // never fails
		return
	}
	if g.random == nil {
		g.random = stream(g.order.Seed)
	}
	clear(to)
	g.random.XORKeyStream(to, to)
}

// vectors calls each with every piece of memory in a list of vectors, until it returns false.
func vectors(m memory, list, count uint32, each func([]byte) bool) uint64 {
	if count > 1024 {
		return errnoInval
	}
	for i := range count {
		at, first := m.u32(list + 8*i)
		size, second := m.u32(list + 8*i + 4)
		piece, there := m.slice(at, size)
		if !first || !second || !there {
			return errnoFault
		}
		if !each(piece) {
			break
		}
	}
	return errnoSuccess
}

func fdRead(h *host, m memory, a []uint64) uint64 {
	if a[0] != 0 {
		return errnoBadf
	}
	read := 0
	if errno := vectors(m, uint32(a[1]), uint32(a[2]), func(piece []byte) bool {
		n := copy(piece, h.guest.input)
		h.guest.input = h.guest.input[n:]
		read += n
		return n == len(piece)
	}); errno != errnoSuccess {
		return errno
	}
	return ok(m.put32(uint32(a[3]), uint32(read)))
}

func fdWrite(h *host, m memory, a []uint64) uint64 {
	if a[0] != 1 && a[0] != 2 {
		return errnoBadf
	}
	to, wrote := &h.guest.output[a[0]-1], 0
	if errno := vectors(m, uint32(a[1]), uint32(a[2]), func(piece []byte) bool {
		if len(*to)+len(piece) > h.guest.order.Output {
			h.guest.endsWith(wire.OutOfOutput, "")
			return false
		}
		*to = append(*to, piece...)
		wrote += len(piece)
		return true
	}); errno != errnoSuccess {
		return errno
	}
	return ok(m.put32(uint32(a[3]), uint32(wrote)))
}

func fdClose(_ *host, _ memory, a []uint64) uint64 {
	if a[0] > 2 {
		return errnoBadf
	}
	return errnoSuccess
}

// Streams have the file type of a character device. Standard input has the right to read, and the
// others the right to write.
const (
	characterDevice = 2
	rightRead       = 1 << 1
	rightWrite      = 1 << 6
)

func fdStatGet(_ *host, m memory, a []uint64) uint64 {
	if a[0] > 2 {
		return errnoBadf
	}
	rights := uint64(rightWrite)
	if a[0] == 0 {
		rights = rightRead
	}
	at := uint32(a[1])
	return ok(m.put64(at, characterDevice) && m.put64(at+8, rights) && m.put64(at+16, 0))
}

func fdFilestatGet(_ *host, m memory, a []uint64) uint64 {
	if a[0] > 2 {
		return errnoBadf
	}
	stat := make([]byte, 64)
	stat[16] = characterDevice
	return ok(m.write(uint32(a[1]), stat))
}

func procExit(h *host, _ memory, a []uint64) uint64 {
	if code := int32(a[0]); code != 0 {
		h.guest.end.Exit = code
		return h.guest.endsWith(wire.Exited, "")
	}
	return h.guest.endsWith(wire.Finished, "")
}

// pollOneoff waits for clocks; streams are always ready. Without the real clock a wait only
// advances the counter. With it, a wait is limited to the duration of the call.
func pollOneoff(h *host, m memory, a []uint64) uint64 {
	const subscription, event = 48, 32
	in, out, count := uint32(a[0]), uint32(a[1]), uint32(a[2])
	if count == 0 || count > 1024 {
		return errnoInval
	}
	list, there := m.slice(in, count*subscription)
	if _, room := m.slice(out, count*event); !there || !room {
		return errnoFault
	}
	events := make([]byte, 0, count*event)
	wait, waits := time.Duration(0), false
	for ; len(list) > 0; list = list[subscription:] {
		s := readSubscription(list)
		if s.kind == 0 {
			w := s.wait(h.guest)
			if !waits || w < wait {
				wait = w
			}
			waits = true
		}
		events = append(events, s.event()...)
	}
	h.guest.sleep(max(wait, 0))
	return ok(m.write(out, events) && m.put32(uint32(a[3]), uint32(len(events)/event)))
}

func (g *guest) sleep(wait time.Duration) {
	if !g.order.Clock {
		g.clock += int64(wait)
		return
	}
	left := time.Duration(g.order.WallMillis)*time.Millisecond - time.Since(g.began)
	time.Sleep(min(wait, max(left, 0)))
}
