//go:build linux

package main

import (
	"encoding/xml"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
)

// asProgram is set if the test binary acts as bin/tiers.
const asProgram = "TEST_PALYRA_TIERS"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// repository is a small module with packages for every possible outcome.
type repository struct {
	t   *testing.T
	dir string
}

// sources are the packages of a repository; each has a folder below internal.
var sources = map[string]string{
	"good":    "func TestGood(t *testing.T) {}\nfunc TestSkipped(t *testing.T) { t.Skip(\"not today\") }",
	"bad":     "func TestBad(t *testing.T) { t.Run(\"a b\", func(t *testing.T) { t.Error(\"it went wrong\") }); t.Run(\"c\", func(*testing.T) {}) }\nfunc TestFine(t *testing.T) {}",
	"panics":  "func TestPanics(t *testing.T) { panic(\"no reason\") }",
	"broken":  "func TestBroken(t *testing.T) { undefined() }",
	"exits":   "func TestMain(m *testing.M) { m.Run(); println(\"something is left\"); os.Exit(3) }\nfunc TestOne(t *testing.T) {}",
	"waiting": "func TestWaiting(t *testing.T) { c := exec.Command(\"sh\", \"-c\", \"echo $$ >$PIDFILE; exec sleep 3600\"); c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}; if err := c.Start(); err != nil { t.Fatal(err) }; os.WriteFile(filepath.Join(t.TempDir(), \"x\"), nil, 0o600); select {} }",
}

func newRepository(t *testing.T, packages ...string) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	r.write("go.mod", "module palyra\n\ngo 1.26\n")
	r.write("etc/passwd", "root\n")
	for _, name := range packages {
		text := "package " + name + "\n\nimport (\n\t\"testing\"\n"
		for word, imported := range map[string]string{"os.": "os", "exec.": "os/exec", "syscall.": "syscall", "filepath.": "path/filepath"} {
			if strings.Contains(sources[name], word) {
				text += "\t" + strconv.Quote(imported) + "\n"
			}
		}
		r.write("internal/"+name+"/"+name+"_test.go", text+")\n\n"+sources[name]+"\n")
		r.write("internal/"+name+"/"+name+".go", "// Package "+name+" is one.\npackage "+name+"\n")
	}
	return r
}

func (r repository) write(name, text string) {
	r.t.Helper()
	name = filepath.Join(r.dir, name)
	must.Do(r.t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)))
}

// command returns the command that runs tiers in the repository.
func (r repository) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.t.Context(), must.Get(os.Executable())(r.t), append(args[:1:1], append([]string{"-install=false", "-etc", filepath.Join(r.dir, "etc")}, args[1:]...)...)...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), asProgram+"=1", workerVariable+"=", "TMPDIR="+r.dir, "GOFLAGS=-buildvcs=false")
	return cmd
}

// run returns the exit code and the output of tiers.
func (r repository) run(args ...string) (code int, out string) {
	r.t.Helper()
	cmd := r.command(args...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	if left := must.Get(filepath.Glob(filepath.Join(r.dir, "t[0-9]*")))(r.t); len(left) > 0 {
		r.t.Errorf("it left %v", left)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// wants fails unless each pattern matches the output.
func wants(t *testing.T, out string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(`(?m)` + p).MatchString(out) {
			t.Errorf("the output does not match %s:\n%s", p, out)
		}
	}
}

func TestPass(t *testing.T) {
	t.Parallel()
	code, out := newRepository(t, "good").run("quick", "-count", "1")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	wants(t, out, `^== quick: \d+ processors, \d+ GiB of memory available, load average [\d.]+$`, `^ok +quick +internal/good +\S+s$`, `^== slowest packages$`, `^== slowest tests\n(.*TestSkipped.*\n)?.*TestGood internal/good$`, `^ok   quick +0m\d\ds`, `^1 passed, 0 failed, 1 skipped\n$`)
}

// TestFail: each way to fail is printed with its output, and named once more at the end
// with a command that runs it alone.
func TestFail(t *testing.T) {
	t.Parallel()
	r := newRepository(t, "good", "bad", "panics", "broken", "exits")
	code, out := r.run("quick", "-count", "1", "-report", "report")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	wants(t, out, `^FAIL quick +internal/bad `, `^ +bad_test.go:\d+: it went wrong$`, `^ +panic: no reason`, `undefined: undefined`, `something is left`, `^3 passed, 4 failed, 1 skipped\n$`)
	_, end, _ := strings.Cut(out, "== failed, each with the command that runs it again\n")
	wants(t, end, `^TestBad/a_b internal/bad fail\n    CGO_ENABLED=0 GOGC=\d+ go test -tags palyrainit -trimpath -short -count=1 -run '\^TestBad\$/\^a_b\$' \./internal/bad$`,
		`^TestPanics internal/panics fail$`, `^package internal/broken fail$`, `^package internal/exits fail$`)
	if strings.Contains(end, "TestBad internal") {
		t.Errorf("the parent of a failed subtest is named as well:\n%s", end)
	}
	line := regexp.MustCompile(`(?m)^    (.*TestBad.*)$`).FindStringSubmatch(end)
	if line == nil {
		t.FailNow()
	}
	again := exec.CommandContext(t.Context(), "sh", "-c", line[1]+" -v")
	again.Dir, again.Env = r.dir, append(os.Environ(), "GOFLAGS=-buildvcs=false")
	text, _ := again.CombinedOutput()
	if wants(t, string(text), `--- FAIL: TestBad/a_b`); strings.Contains(string(text), "TestFine") || strings.Contains(string(text), "TestBad/c") {
		t.Errorf("%s runs more than the failed test:\n%s", line[1], text)
	}
	r.hasReport()
}

// hasReport checks the files that a run with failures wrote.
func (r repository) hasReport() {
	r.t.Helper()
	var report junitSuites
	must.Do(r.t, xml.Unmarshal(must.Get(os.ReadFile(filepath.Join(r.dir, "report/junit.xml")))(r.t), &report))
	failures, skips := 0, 0
	for _, s := range report.Suites {
		failures, skips = failures+s.Failures, skips+s.Skipped
	}
	if len(report.Suites) != 5 || failures != 5 || skips != 1 {
		r.t.Errorf("%d packages, %d failures and %d skips are in the report", len(report.Suites), failures, skips)
	}
	durations := string(must.Get(os.ReadFile(filepath.Join(r.dir, "report/durations.txt")))(r.t))
	wants(r.t, durations, `^quick palyra/internal/good \d+\.\d$`, `^quick palyra/internal/panics `)
}

// TestMissing: an unmet need is one line before the tests, and the other tiers run.
func TestMissing(t *testing.T) {
	t.Parallel()
	r := newRepository(t, "good")
	r.write("test/e2e/e2e_test.go", "package e2e\n\nimport \"testing\"\n\nfunc TestEnd(t *testing.T) {}\n")
	r.write("Makefile", "%:\n\t@true\n")
	tools := filepath.Join(r.dir, "tools")
	must.Do(t, os.Mkdir(tools, 0o755))
	for _, name := range []string{"go", "git", "sh", "make", "true"} {
		must.Do(t, os.Symlink(must.Get(exec.LookPath(name))(t), filepath.Join(tools, name)))
	}
	cmd := r.command("run", "quick", "programs")
	cmd.Env = append(cmd.Env, "PATH="+tools)
	text, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("a tier that did not run is no failure")
	}
	before, after, _ := strings.Cut(string(text), "ok   quick")
	wants(t, before, `^== programs does not run: .*bubblewrap is missing: install bubblewrap \(Debian: apt-get install bubblewrap\)`)
	wants(t, after, `^FAIL programs +0m00s  did not run: `, `^1 passed, 1 failed, 1 skipped\n$`)
}

// TestChosen: PKG selects packages and RUN tests. With either, only Go tests run.
func TestChosen(t *testing.T) {
	t.Parallel()
	r := newRepository(t, "good", "bad")
	code, out := r.run("test", "-pkg", "./internal/bad", "-run", "TestFine")
	if code != 0 || strings.Contains(out, "internal/good") || strings.Contains(out, "web") {
		t.Errorf("exit code %d: %s", code, out)
	}
	wants(t, out, `^ok +unit +internal/bad `, `^1 passed, 0 failed, 0 skipped\n$`)
	for _, args := range [][]string{{"test", "-pkg", "./nowhere"}, {"run", "nothing"}, {"run"}, {"nothing"}, {"flaky"}} {
		if code, out := r.run(args...); code == 0 || !strings.Contains(out, "tiers: ") {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
}

// TestInterrupted: if the program, or its child that runs the tests, is asked to end or is killed,
// no process or file of the tests remains.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"interrupt": syscall.SIGINT, "terminate": syscall.SIGTERM, "kill of the worker": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t, "waiting")
			pidFile := filepath.Join(r.dir, "pid")
			must.Do(t, syscall.Mkfifo(pidFile, 0o600))
			cmd := r.command("quick")
			cmd.Env = append(cmd.Env, "PIDFILE="+pidFile)
			out := new(strings.Builder)
			cmd.Stdout, cmd.Stderr = out, out
			must.Do(t, cmd.Start())
			pid := must.Get(strconv.Atoi(strings.TrimSpace(string(must.Get(os.ReadFile(pidFile))(t)))))(t)
			target := cmd.Process.Pid
			if signal == syscall.SIGKILL {
				target = childOf(t, target)
			}
			must.Do(t, syscall.Kill(target, signal))
			if err := cmd.Wait(); err == nil {
				t.Errorf("it ended with exit code 0: %s", out)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the process that the test started still runs: %v", err)
			}
			if left := must.Get(filepath.Glob(filepath.Join(r.dir, "t[0-9]*")))(t); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

// childOf returns the one child of a process.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	var children []string
	for _, name := range must.Get(filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children"))(t) {
		children = append(children, strings.Fields(string(must.Get(os.ReadFile(name))(t)))...)
	}
	if len(children) != 1 {
		t.Fatalf("process %d has the children %v", pid, children)
	}
	return must.Get(strconv.Atoi(children[0]))(t)
}

// TestLeftovers: mounts below the directory of a run and control groups that it created are
// removed. Earlier ones, and ones of a running process, are not.
//
// Not parallel: it ends every process that this one started.
func TestLeftovers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts and makes control groups without a sandbox")
	}
	dir := filepath.Join(t.TempDir(), "run")
	must.Do(t, os.MkdirAll(filepath.Join(dir, "mount/inner"), 0o755))
	old := filepath.Join(groupOf(t), "palyra-before-"+strconv.Itoa(os.Getpid()))
	must.Do(t, os.Mkdir(old, 0o755))
	t.Cleanup(func() { _ = syscall.Rmdir(old) })
	l := before(dir)
	group := filepath.Join(groupOf(t), "palyra-during-"+strconv.Itoa(os.Getpid()))
	used := filepath.Join(groupOf(t), "palyra-"+strconv.Itoa(os.Getpid())+"-during")
	must.Do(t, os.Mkdir(used, 0o755))
	t.Cleanup(func() { _ = syscall.Rmdir(used) })
	must.Do(t, os.MkdirAll(filepath.Join(group, "inner"), 0o755))
	must.Do(t, syscall.Mount("tmpfs", filepath.Join(dir, "mount"), "tmpfs", 0, ""))
	must.Do(t, os.Mkdir(filepath.Join(dir, "mount/inner"), 0o755))
	must.Do(t, syscall.Mount("tmpfs", filepath.Join(dir, "mount/inner"), "tmpfs", 0, ""))
	must.Do(t, l.remove())
	for _, name := range []string{group, dir} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	for _, name := range []string{old, used} {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("a control group that is not of the run is gone: %v", err)
		}
	}
	if points := mountsBelow(dir); len(points) > 0 {
		t.Errorf("%v is still mounted", points)
	}
}

// groupOf returns a directory of control groups in which groups can be created.
func groupOf(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{groupRoots + "/pids", groupRoots + "/unified", groupRoots} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			return dir
		}
	}
	t.Skip("no control groups are mounted")
	return ""
}

// TestHost: every change of tests below /etc is named, and fails the run.
func TestHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, command string
		changed       []string
	}{
		{"nothing", "true", nil},
		{"read", "cat etc/passwd etc/dir/file >/dev/null", nil},
		{"written with the same", "cp etc/passwd copy; cat copy >etc/passwd", nil},
		{"made and removed", "touch etc/new; rm etc/new", nil},
		{"content", "echo x >>etc/passwd", []string{"etc/passwd"}},
		{"through a link", "ln -s etc/passwd link; echo x >link", []string{"etc/passwd"}},
		{"two", "echo x >>etc/passwd; rm etc/dir/file", []string{"etc/dir/file", "etc/passwd"}},
		{"new", "touch etc/dir/new", []string{"etc/dir/new"}},
		{"a name with a space", "touch 'etc/a b'", []string{"etc/a b"}},
		{"gone", "rm -r etc/dir", []string{"etc/dir", "etc/dir/file"}},
		{"mode", "chmod 600 etc/passwd", []string{"etc/passwd"}},
		{"kind", "rm etc/passwd; mkdir etc/passwd", []string{"etc/passwd"}},
		{"a link elsewhere", "ln -sfn passwd etc/link", []string{"etc/link"}},
		{"null is a file", "rm null; touch null", []string{"null"}},
		{"null is gone", "rm null", []string{"null"}},
		{"null is another device", "ln -sfn /dev/zero null", []string{"null"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must.Do(t, errors.Join(
				os.MkdirAll(filepath.Join(dir, "etc/dir"), 0o755),
				os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte("root\n"), 0o644),
				os.WriteFile(filepath.Join(dir, "etc/dir/file"), []byte("x\n"), 0o644),
				os.Symlink("dir", filepath.Join(dir, "etc/link")),
				os.Symlink("/dev/null", filepath.Join(dir, "null")),
			))
			h := must.Get(lookAtHost(filepath.Join(dir, "etc"), filepath.Join(dir, "null")))(t)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", c.command)
			cmd.Dir = dir
			must.Do(t, cmd.Run())
			changed := h.changes()
			if len(changed) != len(c.changed) {
				t.Fatalf("%q are named, want %q", changed, c.changed)
			}
			for i, name := range c.changed {
				if !strings.HasPrefix(changed[i], filepath.Join(dir, name)) {
					t.Errorf("%q is named, want %s", changed[i], name)
				}
			}
		})
	}
}

// TestHostFails: a run whose tests changed an entry fails and names it.
func TestHostFails(t *testing.T) {
	t.Parallel()
	r := newRepository(t, "good")
	r.write("internal/writes/writes_test.go", "package writes\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestWrites(t *testing.T) { os.WriteFile(\"../../etc/passwd\", nil, 0o644) }\n")
	r.write("internal/writes/writes.go", "// Package writes is one.\npackage writes\n")
	code, out := r.run("quick")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	wants(t, out, `^== the tests changed the machine; .*\n  \S+etc/passwd$`)
}

// TestHostUnreadable: entries that an ordinary user cannot read are omitted.
func TestHostUnreadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "locked/inner"), 0o755))
	must.Do(t, os.Chmod(filepath.Join(dir, "locked"), 0))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "locked"), 0o700) })
	h := must.Get(lookAtHost(dir, "/dev/null"))(t)
	if changed := h.changes(); len(changed) > 0 {
		t.Errorf("%q are named", changed)
	}
}

// TestFlaky: a test that fails intermittently is counted.
func TestFlaky(t *testing.T) {
	t.Parallel()
	r := newRepository(t, "good")
	r.write("internal/now/now.go", "// Package now is one.\npackage now\n")
	r.write("internal/now/now_test.go", "package now\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestEvery(t *testing.T) {}\n\n// TestThird fails each third time.\nfunc TestThird(t *testing.T) {\n\tf, _ := os.OpenFile(\"count\", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)\n\tf.WriteString(\"x\")\n\tif i, _ := f.Stat(); i.Size()%3 == 0 {\n\t\tt.Error(\"the third\")\n\t}\n}\n")
	code, out := r.run("flaky", "-pkg", "./internal/now ./internal/good", "-count", "7")
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	wants(t, out, `^internal/now: 2 of 7 runs failed, with a busy process on each of \d+ processors`, `^  TestThird failed 2 times; the first time:\n +now_test.go:\d+: the third$`, `^internal/good: 0 of 7 runs failed`)
	if strings.Contains(out, "TestEvery failed") {
		t.Error(out)
	}
}

// TestNamesOfTests: exactly the tests that go test runs are counted.
func TestNamesOfTests(t *testing.T) {
	t.Parallel()
	text := "func TestA(t *testing.T) {}\nfunc Test_b(t *testing.T) {}\nfunc Testing(t *testing.T) {}\nfunc TestMain(m *testing.M) {}\nfunc (x) TestC(t *testing.T) {}\n"
	if found := testFunctions.FindAllString(text, -1); !slices.Equal(found, []string{"func TestA(t *testing.T)", "func Test_b(t *testing.T)"}) {
		t.Errorf("found %q", found)
	}
}
