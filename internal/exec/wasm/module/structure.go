// Package module reads the structure of a WebAssembly module before any engine sees a
// byte of it: what it imports and exports, how large its parts are, and that it keeps to
// the features that palyrad's engine has on. It does not check types; the engine does.
//
// Source: WebAssembly Core Specification 2.0, chapter 5 (binary format).
package module

import (
	"fmt"

	"palyra/internal/core/reason"
)

// The modules that a guest may import from.
const (
	// WASI is preview 1 of the WebAssembly System Interface.
	WASI = "wasi_snapshot_preview1"
	// Capabilities is the interface of handles.
	Capabilities = "palyra:plugins/host-capabilities@0.1.0"
)

// Limits bound a module. A zero bound allows nothing of its kind.
type Limits struct {
	// ModuleBytes is the size of the whole module.
	ModuleBytes int
	// BodyBytes is the size of one function's body with its locals.
	BodyBytes int
	// Locals is how many a function declares beside its parameters.
	Locals int
	// BranchTargets is the size of one br_table.
	BranchTargets int
	// Types, Imports, Functions, Tables, Globals, Exports, Elements and Data count entries
	// of their sections. Functions counts imported ones, too.
	Types, Imports, Functions, Tables, Globals, Exports, Elements, Data int
	// TableElements is the initial size of one table.
	TableElements uint64
	// MemoryPages is the initial size of the memory, in pages of 64 KiB.
	MemoryPages uint64
	// SIMD and MultiValue are on where the manifest asks for them.
	SIMD, MultiValue bool
}

// DefaultLimits are those of modules that are packed in a skill.
func DefaultLimits() Limits {
	return Limits{
		ModuleBytes: 8 << 20, BodyBytes: 256 << 10, Locals: 10_000, BranchTargets: 4096,
		Types: 10_000, Imports: 1_000, Functions: 100_000, Tables: 8, Globals: 10_000, Exports: 1_000,
		Elements: 10_000, Data: 100_000, TableElements: 100_000, MemoryPages: 64 << 20 / pageBytes,
	}
}

const pageBytes = 64 << 10

// Kind is how a module and the gateway speak to each other.
type Kind string

// The kinds.
const (
	// Command is a program of WASI preview 1: it reads its input from standard input and
	// writes its result to standard output.
	Command Kind = "command"
	// ABI is a module that exports palyra_alloc and run.
	ABI Kind = "abi"
)

// Import is one imported function.
type Import struct {
	Module, Name string
	Type         FuncType
}

// FuncType is the type of a function. Its letters are i, I, f, F, v, r and x for i32, i64,
// f32, f64, v128, funcref and externref.
type FuncType struct{ Params, Results string }

// Module is what its structure says.
type Module struct {
	Kind    Kind
	Imports []Import
	// Exports are the exported functions by name.
	Exports map[string]FuncType
	// Memory is true when it has one, which it has to export as "memory".
	Memory bool
	// MemoryPages is its initial size in pages of 64 KiB.
	MemoryPages uint64
	// Functions counts the module's own, CodeBytes is the size of their bodies and
	// DataBytes that of its data.
	Functions, CodeBytes, DataBytes int
	// CustomBytes is the size of sections that mean nothing to an engine, such as names
	// and debug information.
	CustomBytes int
}

// Check reads a module. What it refuses is INVALID_INPUT, or INPUT_TOO_LARGE where a bound
// is passed; the message says which part is wrong, and where.
func Check(module []byte, limits Limits) (*Module, error) {
	if len(module) > limits.ModuleBytes {
		return nil, reason.Errorf(reason.InputTooLarge, "the module has %d bytes; %d are allowed", len(module), limits.ModuleBytes).
			WithRemedy("Strip it (`palyra skills build` does), or leave out what makes it large.")
	}
	p := &parser{in: reader{data: module}, limits: limits, out: Module{Exports: map[string]FuncType{}}}
	if err := p.run(); err != nil {
		return nil, err
	}
	return &p.out, nil
}

// parser reads one module. The first mistake ends it: every reading method is a no-op
// afterwards.
type parser struct {
	in     reader
	limits Limits
	out    Module

	types []FuncType
	// functions are the type of each function, imported ones first.
	functions []FuncType
	// imported counts the imported functions, and bodies those of the code section.
	imported, bodies int
	tables, memories int
	globals          int
	exported         map[string]bool
	memoryExported   bool
	// dataCount is what the data count section says, -1 without one.
	dataCount, data int
}

// malformed is a module that is none.
func (r *reader) malformed(format string, args ...any) {
	r.fail(reason.Errorf(reason.InvalidInput, "the module is malformed at byte %d: %s", r.at, fmt.Sprintf(format, args...)).
		WithRemedy("Build it anew, and compare its digest with the one you built."))
}

// refused is a module that uses what is off.
func (r *reader) refused(what string) {
	r.fail(reason.Errorf(reason.InvalidInput, "the module uses %s, which is not allowed (at byte %d)", what, r.at).
		WithRemedy("Build it for the features of WebAssembly 2.0 without it; most compilers have a switch for each."))
}

// tooMany is a module that passes a bound.
func (r *reader) tooMany(what string, n, most uint64) {
	r.fail(reason.Errorf(reason.InputTooLarge, "the module has %d %s; %d are allowed (at byte %d)", n, what, most, r.at))
}
