package jailtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox"
)

// callScript makes the system calls of its arguments, each a name, a number and arguments, and
// prints the name with the result or the negated errno. In arguments, file is a descriptor of a
// file of one written MiB, pipe the end of a pipe, and ptr the address of zeroed memory. Each
// call has a file and a pipe of its own. At the end the script prints the blocks that the calls
// added to their files, if any.
const callScript = `import ctypes, os, sys, tempfile
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
grown = 0
for line in sys.argv[1:]:
    name, *numbers = line.split()
    memory = ctypes.create_string_buffer(4096)
    with tempfile.TemporaryFile(dir=".") as f:
        f.write(b"x" * (1 << 20)); f.flush(); os.fsync(f.fileno())
        before = os.fstat(f.fileno()).st_blocks
        r, w = os.pipe()
        # struct space_resv: l_start at 8 and l_len at 16, for the requests that take one.
        ctypes.memmove(ctypes.addressof(memory) + 8, (1 << 20).to_bytes(8, "little") + (1 << 22).to_bytes(8, "little"), 16)
        names = {"file": f.fileno(), "pipe": w, "ptr": ctypes.addressof(memory)}
        numbers = [ctypes.c_ulong(names.get(n, None) if n in names else int(n, 0)) for n in numbers]
        result = libc.syscall(*numbers)
        print(name, result if result >= 0 else -ctypes.get_errno())
        grown += max(0, os.fstat(f.fileno()).st_blocks - before)
        os.close(r); os.close(w)
print("grown", grown)
`

// SystemCalls verifies the answers to system calls by which a program takes more than its share.
// bare is a runner without the layer seccomp, and workspace creates the workspaces of the runs.
func SystemCalls(t *testing.T, r, bare sandbox.Runner, workspace func(testing.TB) string) {
	t.Helper()
	const mib = " 1048576 4194304" // an offset at the end of the file, and a length
	call := func(nr int, args string) string { return strconv.Itoa(nr) + " " + args }
	rows := []struct {
		name, call string
		want       int
		// differs reports whether the call has another result without the filter.
		differs bool
	}{
		{"allocate", call(unix.SYS_FALLOCATE, "file 0"+mib), -int(unix.EOPNOTSUPP), true},
		{"allocate-beyond", call(unix.SYS_FALLOCATE, "file 1"+mib), -int(unix.EOPNOTSUPP), true},
		{"allocate-zeros", call(unix.SYS_FALLOCATE, "file 0x10"+mib), -int(unix.EOPNOTSUPP), true},
		{"allocate-zeros-beyond", call(unix.SYS_FALLOCATE, "file 0x11"+mib), -int(unix.EOPNOTSUPP), true},
		{"reserve", call(unix.SYS_IOCTL, "file 0x40305828 ptr"), -int(unix.EOPNOTSUPP), true},
		{"reserve64", call(unix.SYS_IOCTL, "file 0x4030582a ptr"), -int(unix.EOPNOTSUPP), true},
		{"reserve-zeros", call(unix.SYS_IOCTL, "file 0x40305839 ptr"), -int(unix.EOPNOTSUPP), true},
		{"hole", call(unix.SYS_FALLOCATE, "file 3 0 524288"), 0, false},
		{"aio", call(unix.SYS_IO_SETUP, "1 ptr"), -int(unix.ENOSYS), true},
		{"io_uring", call(unix.SYS_IO_URING_SETUP, "1 ptr"), -int(unix.ENOSYS), true},
		{"keyctl", call(unix.SYS_KEYCTL, "0 -3 1"), -int(unix.EPERM), true},
		{"add_key", call(unix.SYS_ADD_KEY, "0 0 0 0 -3"), -int(unix.EPERM), true},
		{"request_key", call(unix.SYS_REQUEST_KEY, "0 0 0 -3"), -int(unix.EPERM), true},
		{"pipe-of-64-KiB", call(unix.SYS_FCNTL, "pipe 1031 65536"), 65536, false},
		{"pipe-of-more", call(unix.SYS_FCNTL, "pipe 1031 65537"), -int(unix.EPERM), true},
		{"pipe-of-1-MiB", call(unix.SYS_FCNTL, "pipe 1031 1048576"), -int(unix.EPERM), true},
		{"pipe-of-4-GiB-and-more", call(unix.SYS_FCNTL, fmt.Sprintf("pipe 1031 %d", 1<<32|1<<20)), -int(unix.EPERM), true},
	}
	argv := []string{"python3", "-c", callScript}
	for _, row := range rows {
		argv = append(argv, row.name+" "+row.call)
	}
	results := func(r sandbox.Runner) []string {
		return strings.Split(strings.TrimSpace(Output(t, r, Spec(t, workspace(t), argv...))), "\n")
	}
	got, control := results(r), results(bare)
	for i, row := range rows {
		line := fmt.Sprintf("%s %d", row.name, row.want)
		if got[i] != line {
			t.Errorf("got %q, want %q", got[i], line)
		}
		if same := control[i] == line; same == row.differs {
			t.Errorf("without the filter: %q", control[i])
		}
	}
	if got, control := got[len(rows)], control[len(rows)]; got != "grown 0" || control == "grown 0" {
		t.Errorf("blocks allocated by the calls: %q, without the filter %q", got, control)
	}
}

// Preallocation verifies that posix_fallocate of the C library works although preallocation is
// refused: the library writes, and the file has all its blocks.
func Preallocation(t *testing.T, r sandbox.Runner, workspace func(testing.TB) string) {
	t.Helper()
	const script = `import os
with open("f", "wb") as f:
    os.posix_fallocate(f.fileno(), 0, 3 << 20)
s = os.stat("f")
print(s.st_size, s.st_blocks * 512 >= s.st_size, open("f", "rb").read() == bytes(3 << 20))
`
	for _, tool := range [][]string{{"python3", "-c", script}, {"fallocate", "-x", "-l", "3MiB", "g"}} {
		report := Run(t, r, Spec(t, workspace(t), tool...))
		if want := "3145728 True True\n"; report.ExitCode == nil || *report.ExitCode != 0 || tool[0] == "python3" && string(report.Stdout.Head) != want {
			t.Errorf("%s: %s: %s%s", tool[0], Ending(report), report.Stdout.Head, report.Stderr.Head)
		}
	}
	// Control: fallocate without the C library's fallback is refused, and its message says so.
	report := Run(t, r, Spec(t, workspace(t), "fallocate", "-l", "3MiB", "g"))
	if said := string(report.Stderr.Head); *report.ExitCode == 0 || !slices.Contains(strings.Fields(said), "supported") {
		t.Errorf("preallocating: %s: %s", Ending(report), said)
	}
}

// Refusals verifies that the report of a run lists the calls that the sandbox refused, with the
// reason and the number of attempts.
func Refusals(t *testing.T, r sandbox.Runner, workspace func(testing.TB) string) {
	t.Helper()
	script := func(lines ...string) []string {
		return append([]string{"python3", "-S", "-c", callScript}, lines...)
	}
	s := Spec(t, workspace(t), script(
		"fallocate "+strconv.Itoa(unix.SYS_FALLOCATE)+" file 0 1048576 4194304", "fallocate "+strconv.Itoa(unix.SYS_FALLOCATE)+" file 0 1048576 4194304",
		"io_uring "+strconv.Itoa(unix.SYS_IO_URING_SETUP)+" 8 ptr", "pipe "+strconv.Itoa(unix.SYS_FCNTL)+" pipe 1031 0x100000", "mount "+strconv.Itoa(unix.SYS_MOUNT)+" 0 0 0 0 0",
	)...)
	report := Run(t, r, s)
	list, more := report.Refused()
	got := fmt.Sprint(list, more)
	want := "[{seccomp mount EPERM 1} {seccomp fallocate that allocates blocks ENOTSUP 2} {seccomp io_uring_setup ENOSYS 1} {seccomp fcntl for a pipe above 64 KiB EPERM 1}] 0"
	if got != want || len(report.Violations) != 1 {
		t.Errorf("refused %s, want %s; %d violations", got, want, len(report.Violations))
	}
	control := Spec(t, workspace(t), script("hole "+strconv.Itoa(unix.SYS_FALLOCATE)+" file 3 0 4096", "pipe "+strconv.Itoa(unix.SYS_FCNTL)+" pipe 1031 0x1000")...)
	if list, more := Run(t, r, control).Refused(); len(list)+more > 0 {
		t.Errorf("an ordinary program was refused %+v", list)
	}
}
