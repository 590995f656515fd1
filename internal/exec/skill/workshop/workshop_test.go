package workshop_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/workshop"
	"palyra/internal/exec/wasm/module"
)

func options() workshop.Options { return workshop.Options{Limits: module.DefaultLimits()} }

// newSkill writes a new skill.
func newSkill(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "counter")
	must.Get(workshop.New(dir, "counter", "example.org"))(t)
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// TestNewBuildsAndRuns: a new skill passes its test, runs, and becomes a package in which an
// audit finds only the missing signature. In another directory the bytes are the same.
func TestNewBuildsAndRuns(t *testing.T) {
	t.Parallel()
	dir := newSkill(t)
	for _, arguments := range [][]string{{"vet", "./..."}, {"test", "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", arguments...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", arguments, err, out)
		}
	}
	built := must.Get(workshop.Build(t.Context(), dir, options()))(t)
	if len(built.Made) != 1 || built.Made[0].Name != "modules/count.wasm" || !strings.HasPrefix(built.Made[0].Compiler, "go1.") || built.Made[0].Bytes < 500_000 {
		t.Errorf("%+v", built.Made)
	}
	if tool, ok := built.Manifest.Tool("count"); !ok || tool.Fuel != 200_000_000 {
		t.Errorf("%+v", tool)
	}
	for _, f := range skill.Audit(built.Package, skill.DefaultLimits()) {
		if f.Code != skill.CodeSignature {
			t.Errorf("%+v", f)
		}
	}
	again := must.Get(workshop.Build(t.Context(), newSkill(t), options()))(t)
	if !bytes.Equal(again.File, built.File) || again.Digest != built.Digest {
		t.Errorf("the same sources gave %s and %s", built.Digest, again.Digest)
	}
	for _, want := range []string{`"pkg:golang/std@1.`, `"modules/count.wasm"`} {
		if !strings.Contains(string(built.SBOM), want) {
			t.Errorf("the bill of materials has no %s: %s", want, built.SBOM)
		}
	}
	for _, want := range []string{`"modules/count/main.go"`, `"go.mod"`, built.Made[0].SHA256} {
		if !strings.Contains(string(built.Provenance), want) {
			t.Errorf("the provenance has no %s: %s", want, built.Provenance)
		}
	}
	// Control: another source results in another package.
	main := filepath.Join(dir, "modules/count/main.go")
	text := string(must.Get(os.ReadFile(main))(t))
	write(t, dir, "modules/count/main.go", strings.Replace(text, "most := 3", "most := 4", 1))
	if other := must.Get(workshop.Build(t.Context(), dir, options()))(t); other.Digest == built.Digest {
		t.Error("another source gave the same package")
	}
}

// TestTooLarge: the error names the import that makes a module too large.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	dir := newSkill(t)
	write(t, dir, "modules/count/main.go", "package main\n\nimport (\n\t\"net/http\"\n\t\"os\"\n)\n\nfunc main() { _, _ = http.Get(os.Args[0]) }\n")
	must.Do(t, os.Remove(filepath.Join(dir, "modules/count/main_test.go")))
	o := options()
	o.Limits.ModuleBytes = 2 << 20
	_, err := workshop.Build(t.Context(), dir, o)
	known := reason.Known(err, "")
	if reason.Of(err) != reason.InputTooLarge || !strings.Contains(known.NextStep(), "net/http (") || !strings.Contains(known.Error(), "the limit is 2097152") {
		t.Errorf("%v; %s", err, known.NextStep())
	}
}

// TestSizes: encoding/json is the largest import of a new skill's module, and not larger than
// the module.
func TestSizes(t *testing.T) {
	t.Parallel()
	o := options()
	o.Sizes = true
	built := must.Get(workshop.Build(t.Context(), newSkill(t), o))(t)
	sizes := built.Made[0].Sizes
	if len(sizes) == 0 || sizes[0].Path != "encoding/json" || sizes[0].Bytes < 50_000 || sizes[0].Bytes > built.Made[0].Bytes {
		t.Errorf("%+v of %d", sizes, built.Made[0].Bytes)
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		wants  string
	}{
		"no manifest":    {func(t *testing.T, dir string) { must.Do(t, os.Remove(filepath.Join(dir, "skill.toml"))) }, "has no skill.toml"},
		"a bad manifest": {func(t *testing.T, dir string) { write(t, dir, "skill.toml", "format = 3") }, "skill.toml: format"},
		"no sources":     {func(t *testing.T, dir string) { must.Do(t, os.RemoveAll(filepath.Join(dir, "modules"))) }, "neither "},
		"both":           {func(t *testing.T, dir string) { write(t, dir, "modules/count.wasm", "\x00asm\x01\x00\x00\x00") }, "both the module and sources"},
		"no Go":          {func(t *testing.T, dir string) { write(t, dir, "modules/count/main.go", "package main\nfunc main() {") }, "syntax error"},
		"not a build": {func(t *testing.T, dir string) {
			write(t, dir, "modules/count/main.go", "package main\nfunc main() { a() }")
		}, "undefined: a"},
		"not a valid module": {func(t *testing.T, dir string) {
			must.Do(t, os.RemoveAll(filepath.Join(dir, "modules/count")))
			write(t, dir, "modules/count.wasm", "(module)")
		}, "not a WebAssembly module"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newSkill(t)
			c.change(t, dir)
			if _, err := workshop.Build(t.Context(), dir, options()); err == nil || !strings.Contains(err.Error(), c.wants) || reason.Of(err) != reason.InvalidInput {
				t.Errorf("got %v, want %s", err, c.wants)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := workshop.New(dir, "No Name", "example.org"); err == nil || !strings.Contains(err.Error(), "skill.toml: id") {
		t.Errorf("%v", err)
	}
	write(t, dir, "mine", "x")
	if _, err := workshop.New(dir, "counter", "example.org"); reason.Of(err) != reason.AlreadyExists {
		t.Errorf("%v", err)
	}
	if got := must.Get(os.ReadDir(dir))(t); len(got) != 1 {
		t.Errorf("%v was written", got)
	}
}
