//go:build linux

package host

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
)

const repository = "../.."

// recipes returns the commands of `make build` without running them, with further environment
// variables.
func recipes(t *testing.T, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-C", repository, "-n", "build")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestBuildIsIndependentOfItsDirectory: every compiler run omits its directory and the state of
// .git. `make check-reproducible` compares the bytes.
func TestBuildIsIndependentOfItsDirectory(t *testing.T) {
	t.Parallel()
	programs := 0
	for line := range strings.Lines(recipes(t)) {
		if !strings.Contains(line, " build -") {
			continue
		}
		programs++
		cgo := "CGO_ENABLED=0 "
		if strings.Contains(line, "./cmd/palyra-wasm") { // its engine is a library in C
			cgo = "CGO_ENABLED=1 "
		}
		for _, flag := range []string{cgo, " -trimpath ", " -buildvcs=false "} {
			if !strings.Contains(line, flag) {
				t.Errorf("%q is missing in: %s", flag, line)
			}
		}
	}
	if programs != 5 {
		t.Errorf("%d programs are built, want 5: %s", programs, recipes(t))
	}
}

// TestDateOfABuildIsNotTheClock: the date of a build is the commit's, or the packager's
// SOURCE_DATE_EPOCH.
func TestDateOfABuildIsNotTheClock(t *testing.T) {
	t.Parallel()
	const flag = "version.date="
	for _, env := range [][]string{{"SOURCE_DATE_EPOCH=86400"}, {"SOURCE_DATE_EPOCH=86400", "TZ=Pacific/Kiritimati"}, {"COMMIT_DATE=1970-01-02T00:00:00Z"}} {
		if out := recipes(t, env...); strings.Count(out, flag+"1970-01-02T00:00:00Z") != 2 {
			t.Errorf("with %v: %s", env, out)
		}
	}
	seconds, err := exec.CommandContext(t.Context(), "git", "-C", repository, "show", "-s", "--format=%ct").Output()
	if err != nil {
		t.Skip("this is no checkout of git")
	}
	unix := must.Get(strconv.ParseInt(strings.TrimSpace(string(seconds)), 10, 64))(t)
	want := flag + time.Unix(unix, 0).UTC().Format(time.RFC3339)
	here, elsewhere := recipes(t, "TZ=UTC"), recipes(t, "TZ=Pacific/Kiritimati")
	if here != elsewhere || strings.Count(here, want) != 2 {
		t.Errorf("want %s in every time zone:\n%s\n%s", want, here, elsewhere)
	}
}

// TestProgramsDoNotNameTheirDirectory searches the programs built here for the path of the
// build directory.
func TestProgramsDoNotNameTheirDirectory(t *testing.T) {
	t.Parallel()
	here := must.Get(filepath.Abs(repository))(t)
	looked := 0
	for _, name := range []string{"palyra", "palyrad", "palyra-init", "palyra-hook"} {
		data, err := os.ReadFile(filepath.Join(here, "bin", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must.Do(t, err)
		looked++
		if bytes.Contains(data, []byte(here+"/")) {
			t.Errorf("bin/%s names %s: was it built with `make build`?", name, here)
		}
	}
	if looked == 0 {
		t.Skip("nothing is built: make build")
	}
	// Control: the same search finds the path in a program that is built without -trimpath.
	source := filepath.Join(t.TempDir(), "named")
	must.Do(t, os.MkdirAll(source, 0o700))
	must.Do(t, os.WriteFile(source+"/go.mod", []byte("module named\n\ngo 1.26\n"), 0o600))
	must.Do(t, os.WriteFile(source+"/main.go", []byte("package main\n\nfunc main() { panic(1) }\n"), 0o600))
	for flag, want := range map[string]bool{"-trimpath=false": true, "-trimpath=true": false} {
		program := filepath.Join(t.TempDir(), "program")
		cmd := exec.CommandContext(t.Context(), "go", "build", flag, "-o", program, ".")
		cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := bytes.Contains(must.Get(os.ReadFile(program))(t), []byte(source+"/")); got != want {
			t.Errorf("with %s the program names its directory: %v", flag, got)
		}
	}
}

// TestSameFiles: the comparison of two builds accepts equal ones. For others, it names the
// differing or missing files and prints how to inspect them.
func TestSameFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(t *testing.T, here, there string)
		names  []string
	}{
		{"equal", func(*testing.T, string, string) {}, nil},
		{"more here", func(t *testing.T, here, _ string) { must.Write(t, here+"/attack-matrix.txt", "x") }, nil},
		{"another byte", func(t *testing.T, _, there string) { must.Write(t, there+"/palyrad", "another") }, []string{"palyrad differs"}},
		{"missing", func(t *testing.T, here, _ string) { must.Do(t, os.Remove(here+"/share/man/palyra.1")) }, []string{"share/man/palyra.1 differs", "missing"}},
		{"nothing was built", func(t *testing.T, _, there string) {
			must.Do(t, os.RemoveAll(there))
			must.Do(t, os.Mkdir(there, 0o700))
		}, []string{"there are no files below"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "a b")
			here, there := dir+"/here", dir+"/there"
			for _, root := range []string{here, there} {
				must.Write(t, root+"/palyra", "one")
				must.Write(t, root+"/palyrad", "two")
				must.Write(t, root+"/share/man/palyra.1", "page")
			}
			c.change(t, here, there)
			out, err := exec.CommandContext(t.Context(), repository+"/scripts/same-files.sh", here, there).CombinedOutput()
			if (err != nil) != (c.names != nil) {
				t.Errorf("ended with %v: %s", err, out)
			}
			for _, name := range c.names {
				if !strings.Contains(string(out), name) {
					t.Errorf("%q is not said: %s", name, out)
				}
			}
			if strings.Contains(string(out), "palyra differs") {
				t.Errorf("a file that is the same is named: %s", out)
			}
			if strings.Contains(string(out), "differs") && !strings.Contains(string(out), "go version -m") {
				t.Errorf("how to look is not said: %s", out)
			}
		})
	}
}
