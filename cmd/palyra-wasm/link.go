//go:build cgo && unix

package main

import (
	"fmt"
	"strings"

	"github.com/bytecodealliance/wasmtime-go/v39"

	"palyra/internal/exec/wasm/module"
	"palyra/internal/exec/wasm/wire"
)

// function is a function that guests import. Its numbers have the types of its entry in
// module.Functions; 32-bit numbers are unsigned.
type function func(h *host, m memory, a []uint64) uint64

// newHost links every function that a module may import.
func newHost(e *wasmtime.Engine, l *line) (*host, error) {
	h := &host{linker: wasmtime.NewLinker(e), line: l, watch: watch{interrupt: e.IncrementEpoch}}
	for module, functions := range module.Functions {
		for name, t := range functions {
			f := given[module][name]
			if f == nil {
				return nil, fmt.Errorf("%s.%s is listed as an import, but has no implementation", module, name)
			}
			if err := h.link(module, name, t, f); err != nil {
				return nil, err
			}
		}
	}
	return h, nil
}

// given are the functions by module and name.
var given = map[string]map[string]function{module.WASI: wasi, module.Capabilities: handles}

func (h *host) link(module, name string, t module.FuncType, f function) error {
	return h.linker.FuncNew(module, name, typeOf(t), func(c *wasmtime.Caller, args []wasmtime.Val) ([]wasmtime.Val, *wasmtime.Trap) {
		numbers := make([]uint64, len(args))
		for i, a := range args {
			if t.Params[i] == 'I' {
				numbers[i] = uint64(a.I64())
			} else {
				numbers[i] = uint64(uint32(a.I32()))
			}
		}
		value := f(h, h.guest.memoryOf(c, c.GetExport), numbers)
		if h.guest.ending {
			return nil, wasmtime.NewTrap("the guest ended")
		}
		switch t.Results {
		case "i":
			return []wasmtime.Val{wasmtime.ValI32(int32(value))}, nil
		case "I":
			return []wasmtime.Val{wasmtime.ValI64(int64(value))}, nil
		}
		return nil, nil
	})
}

func typeOf(t module.FuncType) *wasmtime.FuncType {
	list := func(letters string) []*wasmtime.ValType {
		out := make([]*wasmtime.ValType, 0, len(letters))
		for _, letter := range letters {
			kind := wasmtime.KindI32
			if letter == 'I' {
				kind = wasmtime.KindI64
			}
			out = append(out, wasmtime.NewValType(kind))
		}
		return out
	}
	return wasmtime.NewFuncType(list(t.Params), list(t.Results))
}

// endsWith ends the guest when the function in progress returns.
func (g *guest) endsWith(outcome wire.Outcome, problem string) uint64 {
	g.ending, g.end.Outcome, g.end.Problem = true, outcome, strings.TrimSpace(problem)
	return 0
}
