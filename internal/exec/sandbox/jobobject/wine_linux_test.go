package jobobject

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

// The tests for Windows run under Wine if it is installed. Wine's job objects end a whole
// process tree, which is the most important feature for a run. Wine 8 accepts the limits on
// processor time, memory and processes, but enforces none and returns none, so the product
// refuses to run there.
//
// Not parallel: it adopts orphans for the process and reaps any child of it.
func TestUnderWine(t *testing.T) {
	wine, server := findWine()
	if wine == "" {
		t.Skip("Wine is not installed (Debian: apt-get install wine64)")
	}
	dir := t.TempDir()
	env := append(os.Environ(), "WINEPREFIX="+filepath.Join(dir, "prefix"), "HOME="+dir, "WINEDEBUG=-all", "WINEDLLOVERRIDES=mscoree,mshtml,winemenubuilder.exe=d")
	run := func(name string, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env, cmd.Dir = env, dir
		return cmd.CombinedOutput()
	}
	program := filepath.Join(dir, "jobobject.test.exe")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, ".")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tests for Windows: %v\n%s", err, text)
	}
	// This process reaps the processes that Wine leaves behind.
	must.Do(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer reap()
	defer func() {
		cmd := exec.Command(server, "-k")
		cmd.Env = env
		_ = cmd.Run() // fails if no process is left to stop
	}()
	if text, err := run(wine, "wineboot", "--init"); err != nil {
		t.Skipf("Wine does not start: %v\n%s", err, text)
	}
	library := filepath.Join(dir, "prefix", "drive_c", "windows", "system32", "bcryptprimitives.dll")
	if _, err := os.Stat(library); errors.Is(err, os.ErrNotExist) {
		must.Do(t, os.WriteFile(library, forwarder("bcryptprimitives.dll", "ProcessPrng", "advapi32.SystemFunction036"), 0o600))
	}
	text, err := run(wine, program, "-test.v", "-test.timeout=2m")
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	for _, name := range []string{"TestRun", "TestEndings/wall", "TestEndings/output", "TestStraggler", "TestCancelled", "TestUnprovedLayersRefuse", "TestReadOnly", "TestProbe"} {
		if !regexp.MustCompile(`--- PASS: ` + name + ` `).Match(text) {
			t.Errorf("%s did not pass under Wine", name)
		}
	}
	t.Logf("%s", text)
}

func findWine() (wine, server string) {
	for _, pair := range [][2]string{{"/usr/lib/wine/wine64", "/usr/lib/wine/wineserver64"}, {"wine64", "wineserver"}, {"wine", "wineserver"}} {
		wine, err := exec.LookPath(pair[0])
		server, serverErr := exec.LookPath(pair[1])
		if err == nil && serverErr == nil {
			return wine, server
		}
	}
	return "", ""
}

// reap reaps the orphaned processes of Wine.
func reap() {
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// forwarder is a library that forwards its only function to another library. Go programs need
// ProcessPrng of bcryptprimitives.dll, which Wine lacks before 9; its old name is
// SystemFunction036.
func forwarder(library, function, target string) []byte {
	const address, offset, size = 0x1000, 0x200, 0x200
	order := binary.LittleEndian
	section := make([]byte, size)
	next := 52 // after the directory and its three tables with one entry each
	text := func(s string) uint32 {
		at := next
		next += copy(section[at:], s) + 1
		return uint32(address + at)
	}
	for at, value := range map[int]uint32{
		12: text(library), 16: 1, 20: 1, 24: 1, 28: address + 40, 32: address + 44, 36: address + 48,
		40: text(target), 44: text(function),
	} {
		order.PutUint32(section[at:], value)
	}
	var b bytes.Buffer
	write := func(parts ...any) {
		for _, part := range parts {
			_ = binary.Write(&b, order, part)
		}
	}
	b.WriteString("MZ")
	write(make([]byte, 58), uint32(64))
	b.WriteString("PE\x00\x00")
	write([]uint16{0x8664, 1}, [3]uint32{}, []uint16{240, 0x2022})
	write(uint16(0x20b), uint16(14), []uint32{0, size, 0, 0, address}, uint64(0x180000000), []uint32{0x1000, 0x200})
	write([]uint16{6, 0, 0, 0, 6, 0}, []uint32{0, 0x2000, offset, 0}, []uint16{3, 0x160}, []uint64{1 << 20, 1 << 12, 1 << 20, 1 << 12})
	write([]uint32{0, 16, address, size}, [30]uint32{})
	b.WriteString(".edata\x00\x00")
	write([]uint32{size, address, size, offset, 0, 0, 0, 0x40000040})
	write(make([]byte, offset-b.Len()))
	b.Write(section)
	return b.Bytes()
}
