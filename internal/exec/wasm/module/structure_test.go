package module_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/wasm/module"
)

// part is one section of a module.
type part struct {
	id   byte
	body []byte
}

func leb(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

// vec encodes a vector of entries.
func vec(entries ...[]byte) []byte { return append(leb(len(entries)), bytes.Join(entries, nil)...) }

func text(s string) []byte { return append(leb(len(s)), s...) }

func raw(b ...byte) []byte { return b }

// function encodes the body of a function without locals.
func function(code ...byte) []byte {
	body := append([]byte{0}, append(code, 0x0b)...)
	return append(leb(len(body)), body...)
}

func assemble(parts ...part) []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, p := range parts {
		out = append(append(append(out, p.id), leb(len(p.body))...), p.body...)
	}
	return out
}

var (
	nothing  = raw(0x60, 0, 0)
	unary    = raw(0x60, 1, 0x7f, 1, 0x7f)
	types    = part{1, vec(nothing, unary)}
	one      = part{3, vec(raw(0))}
	memory   = part{5, vec(raw(0, 1))}
	exported = part{7, vec(append(text("memory"), 2, 0), append(text("_start"), 0, 0))}
	empty    = part{10, vec(function())}
)

// command returns the smallest command, with additional or replaced sections.
func command(others ...part) []byte {
	parts := []part{types, one, memory, exported, empty}
	for _, o := range others {
		at := len(parts)
		for i, p := range parts {
			if p.id == o.id {
				parts[i], at = o, -1
				break
			}
			if p.id > o.id {
				at = i
				break
			}
		}
		if at >= 0 {
			parts = append(parts[:at], append([]part{o}, parts[at:]...)...)
		}
	}
	return assemble(parts...)
}

// does returns a command whose only function has this code.
func does(code ...byte) []byte { return command(part{10, vec(function(code...))}) }

func TestCheck(t *testing.T) {
	t.Parallel()
	small := module.DefaultLimits()
	small.ModuleBytes, small.BodyBytes, small.BranchTargets, small.Functions, small.Types = 4096, 512, 3, 4, 4
	vectors := small
	vectors.SIMD, vectors.MultiValue = true, true
	several := part{1, vec(nothing, raw(0x60, 0, 2, 0x7f, 0x7f))}
	shuffle := append(append([]byte{0xfd, 12}, make([]byte, 16)...), 0x1a)
	for name, c := range map[string]struct {
		module []byte
		limits module.Limits
		// wants is a part of the error; "" means that the module is accepted.
		wants string
		code  reason.Code
	}{
		"the smallest":            {module: command()},
		"empty":                   {module: nil, wants: "ends too early"},
		"text":                    {module: []byte("(module (func))"), wants: "compile text (.wat) first"},
		"a component":             {module: []byte("\x00asm\x0d\x00\x01\x00"), wants: "the component model"},
		"too large":               {module: append(command(), make([]byte, 4096)...), wants: "the limit is 4096", code: reason.InputTooLarge},
		"cut off":                 {module: command()[:30], wants: "malformed at byte"},
		"a section twice":         {module: assemble(types, types), wants: "out of order or a duplicate"},
		"sections in disorder":    {module: assemble(memory, types), wants: "out of order"},
		"an unknown section":      {module: assemble(part{14, nil}), wants: "section 14 is unknown"},
		"tags":                    {module: assemble(types, part{13, vec(raw(0, 0))}), wants: "exceptions"},
		"bytes after the entries": {module: command(part{1, append(vec(nothing, unary), 0)}), wants: "1 bytes longer"},
		"no library": {module: assemble(types, one, memory, part{7, vec(append(text("memory"), 2, 0), append(text("f"), 0, 0))}, empty),
			wants: "neither a command of wasip1"},
		"a hidden memory":               {module: assemble(types, one, memory, part{7, vec(append(text("_start"), 0, 0))}, empty), wants: `export its memory as "memory"`},
		"exported twice":                {module: command(part{7, vec(append(text("memory"), 2, 0), append(text("memory"), 2, 0))}), wants: "exported twice"},
		"a body too few":                {module: assemble(types, one, memory, exported), wants: "1 functions are declared, but 0 have a body"},
		"a body too large":              {module: does(bytes.Repeat([]byte{1}, 600)...), wants: "bytes in the body of one function; the limit is 512", code: reason.InputTooLarge},
		"a br_table":                    {module: does(0x41, 0, 0x0e, 3, 0, 0, 0, 0)},
		"a large br_table":              {module: does(0x41, 0, 0x0e, 4, 0, 0, 0, 0, 0), wants: "4 targets in one br_table; the limit is 3", code: reason.InputTooLarge},
		"many types":                    {module: command(part{1, vec(nothing, nothing, nothing, nothing, nothing)}), wants: "5 types; the limit is 4", code: reason.InputTooLarge},
		"many functions":                {module: command(part{3, vec(raw(0), raw(0), raw(0), raw(0), raw(0))}), wants: "5 functions; the limit is 4", code: reason.InputTooLarge},
		"promised entries":              {module: command(part{3, raw(4, 0)}), wants: "it declares 4 functions, but 1 bytes are left"},
		"many locals":                   {module: command(part{10, raw(1, 7, 1, 0xff, 0xff, 0xff, 0x7f, 0x7f, 0x0b)}), wants: "locals in one function", code: reason.InputTooLarge},
		"a large memory":                {module: command(part{5, vec(raw(0, 0x81, 0x80, 4))}), wants: "initial memory", code: reason.InputTooLarge},
		"several memories":              {module: command(part{5, vec(raw(0, 1), raw(0, 1))}), wants: "several memories"},
		"a memory of 64 bits":           {module: command(part{5, vec(raw(4, 1))}), wants: "memory64"},
		"a shared memory":               {module: command(part{5, vec(raw(3, 1, 2))}), wants: "threads"},
		"a large table":                 {module: command(part{4, vec(raw(0x70, 0, 0xff, 0xff, 0xff, 0x7f))}), wants: "initial table", code: reason.InputTooLarge},
		"a table of numbers":            {module: command(part{4, vec(raw(0x7f, 0, 1))}), wants: "values other than references"},
		"an import":                     {module: command(part{2, vec(append(append(text("env"), text("system")...), 0, 0))}), wants: `imports "system" from "env"`},
		"an unknown function":           {module: command(part{2, vec(append(append(text(module.WASI), text("system")...), 0, 0))}), wants: "has no such function"},
		"another type":                  {module: command(part{2, vec(append(append(text(module.WASI), text("fd_close")...), 0, 0))}), wants: "as () -> (), but its type is (i32) -> (i32)"},
		"an imported memory":            {module: command(part{2, vec(append(append(text(module.WASI), text("memory")...), 2, 0, 1))}), wants: "is not a function"},
		"an atomic":                     {module: does(0xfe, 0x03, 0), wants: "threads"},
		"a tail call":                   {module: does(0x12, 0), wants: "tail calls"},
		"a call by reference":           {module: does(0x14, 0), wants: "function references"},
		"a throw":                       {module: does(0x08, 0), wants: "exceptions"},
		"a struct":                      {module: does(0xfb, 0, 0), wants: "garbage collection"},
		"a type of a struct":            {module: command(part{1, vec(raw(0x5f, 0))}), wants: "garbage-collected types"},
		"SIMD":                          {module: does(shuffle...), wants: "SIMD"},
		"SIMD, allowed":                 {module: does(shuffle...), limits: vectors},
		"relaxed SIMD":                  {module: does(0xfd, 0x80, 2), limits: vectors, wants: "relaxed SIMD"},
		"two results":                   {module: command(several), wants: "multi-value"},
		"two results, allowed":          {module: command(several), limits: vectors},
		"a block's parameter":           {module: does(0x41, 0, 0x02, 1, 0x0b, 0x1a), wants: "multi-value"},
		"an unknown code":               {module: does(0xff), wants: "the instruction 0xff is unknown"},
		"a call of an unknown function": {module: does(0x10, 7), wants: "the function 7 does not exist"},
		"a long number":                 {module: does(0x41, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x1a), wants: "more than 32 bits"},
		"a number":                      {module: does(0x41, 0x80, 0x80, 0x80, 0x80, 0x78, 0x1a)},
		"code after its end":            {module: command(part{10, vec(raw(4, 0, 0x0b, 0x01, 0x0b))}), wants: "continues after its end"},
		"start with a result":           {module: command(part{3, vec(raw(0), raw(1))}, part{8, raw(1)}, part{10, vec(function(), function(0x20, 0))}), wants: "start function"},
		"data":                          {module: command(part{11, vec(append(raw(0, 0x41, 0, 0x0b), text("hello")...))})},
		"data that are short":           {module: command(part{11, raw(1, 0, 0x41, 0, 0x0b, 9, 'h')}), wants: "it declares 9 bytes"},
		"counted data":                  {module: command(part{11, vec(append(raw(0, 0x41, 0, 0x0b), text("hello")...))}, part{0, append(text("name"), 1, 2)})},
		"elements":                      {module: command(part{4, vec(raw(0x70, 0, 1))}, part{9, vec(append(raw(0, 0x41, 0, 0x0b), vec(raw(0))...))})},
		"elements, no table":            {module: command(part{9, vec(append(raw(0, 0x41, 0, 0x0b), vec(raw(0))...))}), wants: "fills a table"},
	} {
		t.Run(name, func(t *testing.T) {
			limits := small
			if c.limits.ModuleBytes != 0 {
				limits = c.limits
			}
			m, err := module.Check(c.module, limits)
			if c.wants == "" {
				if err != nil || m.Kind != module.Command || !m.Memory {
					t.Fatalf("%+v, %v", m, err)
				}
				return
			}
			if c.code == "" {
				c.code = reason.InvalidInput
			}
			if err == nil || !strings.Contains(err.Error(), c.wants) || reason.Of(err) != c.code {
				t.Errorf("got %v (%s), want %q (%s)", err, reason.Of(err), c.wants, c.code)
			}
		})
	}
}

// TestABI checks a module of the palyra ABI that imports a function of the ABI.
func TestABI(t *testing.T) {
	t.Parallel()
	m := must.Get(module.Check(assemble(
		part{1, vec(unary, raw(0x60, 2, 0x7f, 0x7f, 1, 0x7e))},
		part{2, vec(append(append(text(module.Capabilities), text("secret_read")...), 0, 0))},
		part{3, vec(raw(0), raw(1))}, memory,
		part{7, vec(append(text("memory"), 2, 0), append(text("palyra_alloc"), 0, 1), append(text("run"), 0, 2))},
		part{10, vec(function(0x20, 0), function(0x42, 0))},
	), module.DefaultLimits()))(t)
	if m.Kind != module.ABI || len(m.Imports) != 1 || m.Imports[0].Name != "secret_read" || m.Functions != 2 || m.MemoryPages != 1 {
		t.Errorf("%+v", m)
	}
}

// TestGoProgram checks the output of Go's own compiler.
func TestGoProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\nimport \"fmt\"\nfunc main() { fmt.Println(`{}`) }\n"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module guest\ngo 1.24\n"), 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", "guest.wasm", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	mod := must.Get(os.ReadFile(filepath.Join(dir, "guest.wasm")))(t)
	m := must.Get(module.Check(mod, module.DefaultLimits()))(t)
	if m.Kind != module.Command || m.Functions < 500 || m.CodeBytes+m.DataBytes > len(mod) {
		t.Errorf("%+v", m)
	}
	for _, i := range m.Imports {
		if i.Module != module.WASI {
			t.Errorf("imports %s.%s", i.Module, i.Name)
		}
	}
}

// FuzzCheck: any bytes result in a module or an error with a code. The parts of an accepted
// module fit into it.
func FuzzCheck(f *testing.F) {
	for _, seed := range [][]byte{command(), does(0x41, 0, 0x0e, 3, 0, 0, 0, 0), does(0xfd, 12), does(0xfc, 10, 0, 0), nil} {
		f.Add(seed)
	}
	limits := module.DefaultLimits()
	limits.ModuleBytes, limits.SIMD, limits.MultiValue = 64<<10, true, true
	f.Fuzz(func(t *testing.T, mod []byte) {
		m, err := module.Check(mod, limits)
		if err != nil {
			if code := reason.Of(err); code != reason.InvalidInput && code != reason.InputTooLarge {
				t.Fatalf("%s: %v", code, err)
			}
			return
		}
		if m.CodeBytes+m.DataBytes+m.CustomBytes > len(mod) || !m.Memory {
			t.Fatalf("%d bytes: %+v", len(mod), m)
		}
	})
}

// BenchmarkCheck checks a module of a thousand functions.
func BenchmarkCheck(b *testing.B) {
	declared, bodies := make([][]byte, 1000), make([][]byte, 1000)
	for i := range declared {
		declared[i], bodies[i] = raw(0), function(bytes.Repeat([]byte{0x41, 0, 0x1a}, 300)...)
	}
	mod := command(part{3, vec(declared...)}, part{10, vec(bodies...)})
	b.SetBytes(int64(len(mod)))
	for b.Loop() {
		if _, err := module.Check(mod, module.DefaultLimits()); err != nil {
			b.Fatal(err)
		}
	}
}
