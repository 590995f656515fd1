package workshop_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/workshop"
	"palyra/internal/exec/wasm/module"
)

const examples = "../../../../examples/skills"

// committed is a module of the examples that digests.txt lists.
type committed struct{ dir, module, sha256, compiler string }

func digests(t *testing.T) []committed {
	t.Helper()
	var out []committed
	for line := range strings.Lines(string(must.Get(os.ReadFile(filepath.Join(examples, "digests.txt")))(t))) {
		if f := strings.Fields(line); len(f) == 4 && f[0] != "#" {
			out = append(out, committed{f[0], f[1], f[2], f[3]})
		}
	}
	if len(out) < 5 {
		t.Fatalf("digests.txt has only %v", out)
	}
	return out
}

// TestExamples builds each example. An audit finds only the missing signature, its module has the
// committed digest if the committed compiler is installed, and README lists it.
func TestExamples(t *testing.T) {
	t.Parallel()
	readme := string(must.Get(os.ReadFile(filepath.Join(examples, "README.md")))(t))
	known := digests(t)
	manifests := must.Get(filepath.Glob(filepath.Join(examples, "*", "skill.toml")))(t)
	if len(manifests) != len(known) {
		t.Errorf("there are %v, and digests of %v", manifests, known)
	}
	for _, c := range known {
		t.Run(c.dir, func(t *testing.T) {
			built := must.Get(workshop.Build(t.Context(), filepath.Join(examples, c.dir), options()))(t)
			for _, f := range skill.Audit(built.Package, skill.DefaultLimits()) {
				if f.Code != skill.CodeSignature {
					t.Errorf("%+v", f)
				}
			}
			made := built.Made[0]
			switch {
			case len(built.Made) != 1 || made.Name != c.module || built.Manifest.ID != c.dir:
				t.Errorf("%s: %+v", built.Manifest.ID, built.Made)
			case made.Compiler != "" && made.Compiler != c.compiler:
				t.Logf("the committed digest is that of %s, and %s is here", c.compiler, made.Compiler)
			case made.SHA256 != c.sha256:
				t.Errorf("%s of %s has the digest %s, and %s is committed", made.Name, made.Compiler, made.SHA256, c.sha256)
			}
			if !strings.Contains(readme, "| `"+c.dir+"` | ") {
				t.Errorf("README.md has no line for it")
			}
		})
	}
}

// TestExamplesOfOtherCompilers: if the compiler of a committed module is installed, it builds the
// same module.
func TestExamplesOfOtherCompilers(t *testing.T) {
	t.Parallel()
	for language, c := range map[string]struct{ dir, version, says string }{
		"c":    {"checksum", "clang --version", "Debian clang version 14.0.6"},
		"rust": {"line-diff", "/usr/bin/rustc --version", "rustc 1.63.0"},
	} {
		t.Run(language, func(t *testing.T) {
			words := strings.Fields(c.version)
			if says, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil || !strings.Contains(string(says), c.says) {
				t.Skipf("%s is not here: %v %.60q", c.says, err, says)
			}
			to := filepath.Join(t.TempDir(), "module.wasm")
			if out, err := exec.CommandContext(t.Context(), filepath.Join(examples, "build.sh"), language, to).CombinedOutput(); err != nil {
				t.Skipf("its parts for WebAssembly are not here: %v\n%s", err, out)
			}
			at := slices.IndexFunc(digests(t), func(d committed) bool { return d.dir == c.dir })
			is := must.Get(os.ReadFile(filepath.Join(examples, c.dir, digests(t)[at].module)))(t)
			if got := must.Get(os.ReadFile(to))(t); !bytes.Equal(got, is) {
				t.Errorf("%s makes another module (%d bytes) than is committed (%d bytes)", c.says, len(got), len(is))
			}
		})
	}
}

// TestSpecsProgramInC builds the program in docs/format/skill.md with the command above it.
func TestSpecsProgramInC(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("clang"); err != nil {
		t.Skip("clang is not here")
	}
	text := string(must.Get(os.ReadFile("../../../../docs/format/skill.md"))(t))
	_, line, _ := strings.Cut(text, "build it with `clang ")
	line, _, _ = strings.Cut(line, "`")
	_, program, _ := strings.Cut(text, "```c\n")
	program, _, _ = strings.Cut(program, "```")
	dir := t.TempDir()
	write(t, dir, "echo.c", program)
	cmd := exec.CommandContext(t.Context(), "clang", append(strings.Fields(line), "-o", "echo.wasm", "echo.c")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "wasm-ld") {
			t.Skipf("its linker for WebAssembly is not here: %s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	m := must.Get(module.Check(must.Get(os.ReadFile(filepath.Join(dir, "echo.wasm")))(t), module.DefaultLimits()))(t)
	if m.Kind != module.ABI {
		t.Errorf("it is a %s", m.Kind)
	}
}

// TestExamplesHaveTheirPackageHost: the examples use the package host of a new skill.
func TestExamplesHaveTheirPackageHost(t *testing.T) {
	t.Parallel()
	dir := newSkill(t)
	for _, name := range []string{"host.go", "grants.go", "elsewhere.go"} {
		if !bytes.Equal(must.Get(os.ReadFile(filepath.Join(dir, "host", name)))(t), must.Get(os.ReadFile(filepath.Join(examples, "host", name)))(t)) {
			t.Errorf("examples/skills/host/%s is not the one of a new skill", name)
		}
	}
}

// TestExamplesPassTheirTests runs the tests of the examples natively in Go.
func TestExamplesPassTheirTests(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "test", "./...")
	cmd.Dir, cmd.Env = examples, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestGuestsImportTheWholeInterface: the package host links each function with the type in the
// interface.
func TestGuestsImportTheWholeInterface(t *testing.T) {
	t.Parallel()
	dir := newSkill(t)
	write(t, dir, "modules/count/main.go", fmt.Sprintf(everything, "counter"))
	must.Do(t, os.Remove(filepath.Join(dir, "modules/count/main_test.go")))
	text := string(must.Get(os.ReadFile(filepath.Join(dir, "skill.toml")))(t))
	write(t, dir, "skill.toml", strings.Replace(text, "[[tools]]", "[compatibility]\ninterface = \"0.1.0\"\n\n[[tools]]", 1))
	built := must.Get(workshop.Build(t.Context(), dir, options()))(t)
	missing := skill.Audit(built.Package, skill.DefaultLimits())
	for _, grant := range []string{"http", "secrets", "storage_bytes", "channels"} {
		if !slices.ContainsFunc(missing, func(f skill.Finding) bool {
			return f.Code == skill.CodeUnasked && strings.Contains(f.What, "can use "+grant)
		}) {
			t.Errorf("%s is not noticed: %+v", grant, missing)
		}
	}
}

// everything calls each function of the package host.
const everything = `package main

import (
	"fmt"

	"%s/host"
)

func main() {
	h, err := host.HTTP("a")
	s, _ := host.Storage()
	_, _ = host.Secret("a")
	_, _ = host.Channel("a")
	_, _ = h.Request(host.Request{})
	_, _ = h.Secret()
	_ = h.Send("a")
	_, _ = s.Get("a")
	_ = s.Put("a", nil)
	_ = s.Delete("a")
	_, _ = s.List("a")
	host.Log(host.Info, "a")
	host.Random(make([]byte, 3))
	fmt.Println(err, host.Now(), host.Names(host.KindHTTP))
}
`
