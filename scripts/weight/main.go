// Command weight prints what each module weighs in programs, as rows of a table:
//
//	go run ./scripts/weight bin/palyrad bin/palyra
//
// The weight is the machine code of a module's functions with their entries in the table that Go
// keeps for stack traces. Types, strings and the line numbers of all modules are in tables that
// they share, about as much again; the last rows have them. The programs are ELF files, and may be
// stripped.
package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "weight:", err)
		os.Exit(1)
	}
}

func run(programs []string) error {
	if len(programs) == 0 {
		return errors.New("no program; name some, such as bin/palyrad, which `make build` links")
	}
	direct, err := requirements("go.mod")
	if err != nil {
		return err
	}
	var weights []weight
	for _, program := range programs {
		w, err := weigh(program)
		if err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
		weights = append(weights, w)
	}
	table(weights, direct)
	return nil
}

// requirements returns the modules that go.mod requires directly.
func requirements(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	parsed, err := modfile.Parse(file, text, nil)
	if err != nil {
		return nil, err
	}
	var direct []string
	for _, r := range parsed.Require {
		if !r.Indirect {
			direct = append(direct, r.Mod.Path)
		}
	}
	return direct, nil
}

// The rows that are not modules of go.mod, at the end of the table.
const (
	others   = "modules that those require"
	standard = "standard library and runtime"
	shared   = "types, strings, line numbers, embedded files"
	whole    = "the program"
)

var last = []string{others, standard, shared, whole}

// weight is what the parts of one program weigh, in bytes.
type weight struct {
	size    int
	own     string
	modules map[string]int
}

func weigh(program string) (weight, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return weight{}, err
	}
	file, err := os.Stat(program)
	if err != nil {
		return weight{}, err
	}
	functions, err := readFunctions(program)
	if err != nil {
		return weight{}, err
	}
	paths := []string{info.Main.Path}
	for _, dependency := range info.Deps {
		paths = append(paths, dependency.Path)
	}
	// The longest path first: it is the module of a package that several match.
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	w := weight{size: int(file.Size()), own: info.Main.Path, modules: make(map[string]int)}
	rest := w.size
	for _, f := range functions {
		w.modules[moduleOf(packageOf(f.name), paths)] += f.size
		rest -= f.size
	}
	w.modules[shared] = rest
	return w, nil
}

// packageOf returns the import path in the symbol of a function.
func packageOf(symbol string) string {
	symbol, _, _ = strings.Cut(symbol, "[")
	for _, generated := range []string{"type:.eq.", "type:.hash."} {
		symbol = strings.TrimPrefix(symbol, generated)
	}
	slash := strings.LastIndex(symbol, "/") + 1
	last, _, _ := strings.Cut(symbol[slash:], ".")
	return symbol[:slash] + strings.ReplaceAll(last, "%2e", ".")
}

func moduleOf(pkg string, modules []string) string {
	for _, module := range modules {
		if pkg == module || strings.HasPrefix(pkg, module+"/") {
			return module
		}
	}
	return standard
}

type function struct {
	name string
	size int
}

// header is the start of the section .gopclntab (runtime.pcHeader) on a processor of 64 bits.
// The offsets are from the start of the section.
type header struct {
	Magic                                        uint32
	_, _, _, _                                   uint8
	Functions, _, _, Names, _, _, PCTable, Table uint64
}

// magic is that of Go 1.20 and later.
const magic = 0xfffffff1

// readFunctions reads the table of functions: pairs of the offset of the code, and of the entry
// that has more about the function (runtime._func), in the order of both.
func readFunctions(program string) ([]function, error) {
	file, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	section := file.Section(".gopclntab")
	if section == nil {
		return nil, errors.New("the section .gopclntab is missing; name a Go program for Linux")
	}
	data, err := section.Data()
	if err != nil {
		return nil, err
	}
	var h header
	if _, err := binary.Decode(data, file.ByteOrder, &h); err != nil || h.Magic != magic {
		return nil, fmt.Errorf("the table of functions has an unknown form (%#x); teach scripts/weight the one of this Go", h.Magic)
	}
	table := data[h.Table:]
	word := func(at uint64) uint64 { return uint64(file.ByteOrder.Uint32(table[at:])) }
	functions := make([]function, h.Functions)
	for i := range functions {
		pair := uint64(i) * 8
		code, entry := word(pair), word(pair+4)
		nextCode, nextEntry := word(pair+8), uint64(len(table))
		if i+1 < len(functions) {
			nextEntry = word(pair + 12)
		}
		name, _, _ := bytes.Cut(data[h.Names+word(entry+4):], []byte{0})
		functions[i] = function{string(name), int(nextCode-code) + int(nextEntry-entry) + 8 + len(name) + 1}
	}
	return functions, nil
}

func table(weights []weight, direct []string) {
	rows := make(map[string][]int)
	for i, w := range weights {
		for module, bytes := range w.modules {
			row := module
			if module != w.own && module != standard && module != shared && !slices.Contains(direct, module) {
				row = others
			}
			if rows[row] == nil {
				rows[row] = make([]int, len(weights))
			}
			rows[row][i] += bytes
		}
	}
	modules := slices.Collect(maps.Keys(rows))
	slices.SortFunc(modules, func(a, b string) int {
		return cmp.Or(slices.Compare(rows[b], rows[a]), cmp.Compare(a, b))
	})
	for _, w := range weights {
		rows[whole] = append(rows[whole], w.size)
	}
	modules = slices.DeleteFunc(modules, func(row string) bool { return slices.Contains(last, row) })
	for _, name := range append(modules, last...) {
		fmt.Printf("| %s |", name)
		for _, bytes := range rows[name] {
			fmt.Printf(" %d |", bytes)
		}
		fmt.Println()
	}
}
