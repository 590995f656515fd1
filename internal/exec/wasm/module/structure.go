// Package module checks the structure of a WebAssembly module before any engine reads it. It
// checks the imports and exports, the sizes of the parts, and that the module uses only
// features that palyrad's engine enables. It does not check types; the engine does.
//
// Source: WebAssembly Core Specification 2.0, chapter 5 (binary format).
//
// This package has its own decoder, because the decoders of wazero are internal to wazero, and
// because the limits here (bodies, jump tables, counts) apply while the module is read.
package module

import (
	"fmt"

	"palyra/internal/core/reason"
)

// The modules that a guest may import from.
const (
	// WASI is preview 1 of the WebAssembly System Interface.
	WASI = "wasi_snapshot_preview1"
	// Capabilities is the handle interface.
	Capabilities = "palyra:plugins/host-capabilities@0.1.0"
)

// Limits are the limits of a module. A zero limit allows no entry of its kind.
type Limits struct {
	// ModuleBytes is the maximum size of the module.
	ModuleBytes int
	// BodyBytes is the maximum size of one function's body with its locals.
	BodyBytes int
	// Locals is the maximum number of locals that a function declares in addition to its
	// parameters.
	Locals int
	// BranchTargets is the maximum size of one br_table.
	BranchTargets int
	// Types, Imports, Functions, Tables, Globals, Exports, Elements and Data limit the entries of
	// their sections. Functions includes imported functions.
	Types, Imports, Functions, Tables, Globals, Exports, Elements, Data int
	// TableElements is the maximum initial size of one table.
	TableElements uint64
	// MemoryPages is the maximum initial size of the memory, in pages of 64 KiB.
	MemoryPages uint64
	// SIMD and MultiValue are enabled if the manifest requests them.
	SIMD, MultiValue bool
}

// DefaultLimits are the limits for modules that are packed in a skill.
func DefaultLimits() Limits {
	return Limits{
		ModuleBytes: 8 << 20, BodyBytes: 256 << 10, Locals: 10_000, BranchTargets: 4096,
		Types: 10_000, Imports: 1_000, Functions: 100_000, Tables: 8, Globals: 10_000, Exports: 1_000,
		Elements: 10_000, Data: 100_000, TableElements: 100_000, MemoryPages: 64 << 20 / pageBytes,
	}
}

const pageBytes = 64 << 10

// Kind is the calling convention of a module.
type Kind string

// The kinds.
const (
	// Command is a program of WASI preview 1: it reads its input from standard input and
	// writes its result to standard output.
	Command Kind = "command"
	// ABI is a module that exports palyra_alloc and run. Its result is one 64-bit number (pointer
	// and length). Two results would need multi-value, which a manifest must enable.
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

// Module describes the structure of a module.
type Module struct {
	Kind    Kind
	Imports []Import
	// Exports are the exported functions by name.
	Exports map[string]FuncType
	// Memory is true if the module has a memory, which must be exported as "memory".
	Memory bool
	// MemoryPages is its initial size in pages of 64 KiB.
	MemoryPages uint64
	// Functions counts the module's own functions, CodeBytes is the size of their bodies and
	// DataBytes the size of its data.
	Functions, CodeBytes, DataBytes int
	// CustomBytes is the size of sections without a meaning for an engine, such as names and
	// debug information.
	CustomBytes int
}

// Check checks a module. Its errors are INVALID_INPUT, or INPUT_TOO_LARGE if a limit is exceeded;
// the message names the part and its position.
func Check(module []byte, limits Limits) (*Module, error) {
	if len(module) > limits.ModuleBytes {
		return nil, reason.Errorf(reason.InputTooLarge, "the module has %d bytes; the limit is %d", len(module), limits.ModuleBytes).
			WithRemedy("Strip it (`palyra skills build` does), or remove large parts of it.")
	}
	p := &parser{scope: scope{in: reader{data: module}, limits: limits}, out: Module{Exports: map[string]FuncType{}}}
	if err := p.run(); err != nil {
		return nil, err
	}
	return &p.out, nil
}

// scope reads value types and expressions, whose indices refer to the sections that were read so
// far. After the first error, every reading method is a no-op.
type scope struct {
	in     reader
	limits Limits
	types  []FuncType
	// functions are the types of the functions, imported ones first.
	functions                 []FuncType
	tables, memories, globals int
}

// parser parses the sections of one module.
type parser struct {
	scope
	out Module

	// imported counts the imported functions, and bodies the entries of the code section.
	imported, bodies int
	exported         map[string]bool
	memoryExported   bool
	// dataCount is the value of the data count section, -1 if it is missing.
	dataCount, data int
}

// malformed reports an invalid module.
func (r *reader) malformed(format string, args ...any) {
	r.fail(reason.Errorf(reason.InvalidInput, "the module is malformed at byte %d: %s", r.at, fmt.Sprintf(format, args...)).
		WithRemedy("Build it again, and compare its digest with the digest of your build."))
}

// refused reports the use of a disabled feature.
func (r *reader) refused(what string) {
	r.fail(reason.Errorf(reason.InvalidInput, "the module uses %s, which is not allowed (at byte %d)", what, r.at).
		WithRemedy("Build it for WebAssembly 2.0 without this feature; most compilers have an option for each feature."))
}

// tooMany reports an exceeded limit.
func (r *reader) tooMany(what string, n, most uint64) {
	r.fail(reason.Errorf(reason.InputTooLarge, "the module has %d %s; the limit is %d (at byte %d)", n, what, most, r.at))
}
