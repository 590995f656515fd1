//go:build linux && (amd64 || arm64)

package seccomp

import (
	"iter"
	"math/rand/v2"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// boundaryValues returns boundary values of arguments on both sides of every check.
func boundaryValues() []uint64 {
	return []uint64{
		0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 16, 17, 18, 40, 132, 255, 262, 1 << 7, 1 << 10, 0o644, 0o2755, 0o4755, 0o6000, 0o7777,
		unix.S_IFIFO | 0o644, unix.S_IFCHR | 0o644, unix.S_IFBLK | 0o644, unix.S_IFREG | 0o4755, unix.S_IFSOCK,
		unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, unix.SOCK_RAW | unix.SOCK_CLOEXEC,
		unix.O_CREAT | unix.O_WRONLY, unix.O_TMPFILE | unix.O_RDWR, unix.O_DIRECTORY,
		unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSCTTY, unix.TCGETS, unix.AT_EMPTY_PATH, unix.MFD_NOEXEC_SEAL,
		unix.CLONE_NEWUSER, unix.CLONE_NEWNET | 17, unix.CLONE_NEWCGROUP, unix.CLONE_NEWTIME, unix.CLONE_VM | unix.CLONE_THREAD,
		unix.F_SETPIPE_SZ, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1 << 17, 1 << 31, 0x40305828, 0x4030582a, 0x4030582b, 0x40305839,
		unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_WRITE_ZEROES,
		0x0400000, 0xffffffff, 0xfffffffffffffffe, 1 << 32, 1<<32 | unix.TIOCSTI, 1<<40 | 1, 1<<63 | 0o4755,
	}
}

// boundaryArgs yields the boundary values in each argument. It adds second values that matter
// for calls with two or three checked arguments.
func boundaryArgs() iter.Seq[[6]uint64] {
	second := []uint64{0, 1, 2, 6, 17, 262, 0o644, 0o2755, 0o4755, unix.S_IFCHR, unix.O_CREAT | unix.O_WRONLY, unix.O_TMPFILE, 0xffffffff, 1 << 32}
	return func(yield func([6]uint64) bool) {
		for _, a := range boundaryValues() {
			for _, b := range second {
				for _, args := range [][6]uint64{{a, b}, {a, 1, b}, {a, 2, b}, {a, unix.F_SETPIPE_SZ, b}, {a, b, 1<<16 + 1}, {2, a, b}, {0, a, b}, {0, 0, a, b}, {0, 0, 0, a, b, a}} {
					if !yield(args) {
						return
					}
				}
			}
		}
	}
}

// The kernel's filter, the watching filter and the notifier's table must agree on every call.
// The errno is the same, whichever of them answers.
func TestWatchedAnswersAreTheSame(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {StrictExec: true}, {NoNetwork: true, NoIPC: true, NoProcesses: true}, {Grants: Grants{LocalSockets: true, Terminals: true, Tracing: true}}} {
		plain, table := newVM(t, o), NewTable(o)
		o.Watch = true
		watching := newVM(t, o)
		reported := 0
		compare := func(c call) {
			t.Helper()
			want, got := answer(t, plain, c), answer(t, watching, c)
			expected := uint32(retAllow)
			if errno := table.Errno(c.nr, c.args); errno != 0 {
				expected = retErrno | uint32(errno)
			}
			if want != expected {
				t.Fatalf("%+v: call %d%x: the filter says %#x, the table %#x", o, c.nr, c.args, want, expected)
			}
			if report := table.decide(c.nr, c.args).report; report {
				reported++
				expected = retNotify
			}
			if got != expected {
				t.Fatalf("%+v: call %d%x: the watching filter says %#x, want %#x", o, c.nr, c.args, got, expected)
			}
		}
		for nr := range calls {
			if r, ok := table[nr]; !ok || len(r) == 1 {
				compare(call{nr: nr, arch: auditArch})
				continue
			}
			for args := range boundaryArgs() {
				compare(call{nr, auditArch, args})
			}
		}
		if reported == 0 {
			t.Errorf("%+v: nothing was reported", o)
		}
	}
}

// Every call that may be reported has a name.
func TestNamesAreComplete(t *testing.T) {
	t.Parallel()
	for nr, r := range NewTable(Options{StrictExec: true, NoProcesses: true}) {
		for _, c := range r {
			if c.then.report && Name(nr) == strconv.Itoa(nr) {
				t.Errorf("call %d may be reported and has no name", nr)
			}
		}
	}
	if got := Name(5000); got != "5000" {
		t.Errorf("an unknown call is named %q", got)
	}
}

func FuzzProgram(f *testing.F) {
	options := Options{StrictExec: true}
	vm, table := newVM(f, options), NewTable(options)
	f.Add(0, uint32(auditArch), uint64(0), uint64(0), uint64(0))
	f.Add(unix.SYS_IOCTL, uint32(auditArch), uint64(0), uint64(unix.TIOCSTI|1<<40), uint64(0))
	f.Fuzz(func(t *testing.T, nr int, arch uint32, a, b, c uint64) {
		got := answer(t, vm, call{nr, arch, [6]uint64{a, b, c}})
		low := answer(t, vm, call{nr, arch, [6]uint64{a & 0xffffffff, b & 0xffffffff, c & 0xffffffff}})
		if got != low {
			t.Errorf("high bits changed the answer from %#x to %#x", low, got)
		}
		if arch != auditArch || uint32(nr) >= compatBit {
			if got != retKill {
				t.Errorf("call %d of arch %#x: %#x", nr, arch, got)
			}
			return
		}
		if errno := table.Errno(int(uint32(nr)), [6]uint64{a, b, c}); (errno == 0) != (got == retAllow) {
			t.Errorf("call %d(%#x, %#x, %#x): the filter says %#x, the table %v", nr, a, b, c, got, errno)
		}
	})
}

// FuzzAssembler compares programs of random tables with the tables.
func FuzzAssembler(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		random := rand.New(rand.NewPCG(a, b))
		table := randomTable(random)
		raw, err := table.assemble(false)
		if err != nil {
			t.Skip(err) // too long for the kernel
		}
		vm := machine(t, raw)
		for range 200 {
			c := call{nr: random.IntN(80), arch: auditArch}
			for i := range c.args {
				c.args[i] = randomValue(random)
			}
			want := uint32(retAllow)
			if errno := table.Errno(c.nr, c.args); errno != 0 {
				want = retErrno | uint32(errno)
			}
			if got := answer(t, vm, c); got != want {
				t.Fatalf("call %d%x: the program says %#x, the table %#x: %+v", c.nr, c.args, got, want, table[c.nr])
			}
		}
	})
}

func randomTable(random *rand.Rand) Table {
	table := Table{}
	for range random.IntN(60) {
		var r rule
		for range random.IntN(6) {
			c := clause{then: verdict{errno: unix.Errno(random.IntN(40))}}
			for range random.IntN(5) {
				c.when = append(c.when, check{
					arg: random.IntN(6), mask: uint32(randomValue(random)), bits: random.IntN(2) == 0, want: uint32(randomValue(random)),
				})
			}
			r = append(r, c)
		}
		table[random.IntN(70)] = r
	}
	return table
}

// randomValue often returns one of few values, so that checks match sometimes.
func randomValue(random *rand.Rand) uint64 {
	switch random.IntN(4) {
	case 0:
		return uint64(random.IntN(4))
	case 1:
		return uint64(all)
	case 2:
		return 1 << random.IntN(64)
	}
	return random.Uint64()
}
