//go:build linux && amd64

package seccomp

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/bpf"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
)

// oracle is the program of testdata/oracle.c, which calls libseccomp.
type oracle struct{ path string }

func newOracle(t *testing.T) oracle {
	t.Helper()
	o := oracle{filepath.Join(t.TempDir(), "oracle")}
	text, err := exec.Command("gcc", "-O1", "-Wall", "-o", o.path, "testdata/oracle.c", "-lseccomp").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\nThis test needs gcc and libseccomp: apt-get install gcc libc6-dev libseccomp-dev", err, text)
	}
	return o
}

func (o oracle) ask(t *testing.T, args ...string) []byte {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(o.path, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("oracle %v: %v: %s", args, err, &said)
	}
	return out
}

func (o oracle) machine(t *testing.T, args ...string) *bpf.VM {
	t.Helper()
	return machine(t, instructions(o.ask(t, args...)))
}

// instructions is the inverse of Bytes.
func instructions(program []byte) []bpf.RawInstruction {
	var raw []bpf.RawInstruction
	for ; len(program) >= 8; program = program[8:] {
		raw = append(raw, bpf.RawInstruction{
			Op: binary.LittleEndian.Uint16(program), Jt: program[2], Jf: program[3], K: binary.LittleEndian.Uint32(program[4:]),
		})
	}
	return raw
}

// names returns the calls known to libseccomp, by number.
func (o oracle) names(t *testing.T) map[int]string {
	t.Helper()
	names := map[int]string{}
	for line := range strings.Lines(string(o.ask(t, "names"))) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		nr := must.Get(strconv.Atoi(number))(t)
		names[nr] = name
	}
	return names
}

// TestOracle compares the decisions with libseccomp's decisions for independently written
// rules. It covers every call by number, and boundary values of calls whose arguments are
// checked.
func TestOracle(t *testing.T) {
	t.Parallel()
	needs.Programs(t, "gcc")
	o := newOracle(t)
	for _, mode := range []string{"plain", "watch"} {
		ours, list := newVM(t, Options{Watch: mode == "watch"}), o.machine(t, "list", mode)
		for nr, r := range NewTable(Options{}) {
			if len(r) == 1 {
				continue
			}
			theirs := o.machine(t, Name(nr), mode)
			for args := range boundaryArgs() {
				c := call{nr, auditArch, args}
				if got, want := answer(t, ours, c), answer(t, theirs, c); got != want {
					t.Fatalf("%s: %s%x: %#x, libseccomp says %#x", mode, Name(nr), args, got, want)
				}
			}
		}
		for nr := range calls {
			if r := NewTable(Options{})[nr]; len(r) > 1 {
				continue
			}
			c := call{nr: nr, arch: auditArch}
			if got, want := answer(t, ours, c), answer(t, list, c); got != want {
				t.Errorf("%s: call %d: %#x, libseccomp says %#x", mode, nr, got, want)
			}
		}
		for _, c := range []call{{nr: 0, arch: 0x40000003}, {nr: compatBit, arch: auditArch}, {nr: compatBit + 59, arch: auditArch}} {
			if got, want := answer(t, ours, c), answer(t, list, c); got != want {
				t.Errorf("%s: call %#x of %#x: %#x, libseccomp says %#x", mode, c.nr, c.arch, got, want)
			}
		}
	}
}

func TestNamesAgreeWithOracle(t *testing.T) {
	t.Parallel()
	needs.Programs(t, "gcc")
	for nr, name := range newOracle(t).names(t) {
		if got := Name(nr); got != name && got != strconv.Itoa(nr) {
			t.Errorf("call %d is %s, not %s", nr, name, got)
		}
	}
}
