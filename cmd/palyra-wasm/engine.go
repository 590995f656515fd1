//go:build cgo && unix

package main

import (
	"fmt"
	"runtime"

	"github.com/bytecodealliance/wasmtime-go/v39"
	"golang.org/x/sys/unix"

	"palyra/internal/exec/wasm/wire"
)

// engineVersion is the version of the module in go.mod; a test compares them.
const engineVersion = "39.0.1"

func engineName() string { return "wasmtime " + engineVersion + " " + runtime.GOARCH }

// newEngine returns an engine with Cranelift, fuel and epochs, and with every proposal disabled
// that is not in wire.Features. Guards and traps keep their defaults.
func newEngine(on wire.Features) *wasmtime.Engine {
	c := wasmtime.NewConfig()
	c.SetStrategy(wasmtime.StrategyCranelift)
	c.SetCraneliftOptLevel(wasmtime.OptLevelSpeed)
	c.SetConsumeFuel(true)
	c.SetEpochInterruption(true)
	c.SetCraneliftNanCanonicalization(true) // the same input must give the same result
	c.SetWasmSIMD(on.SIMD)
	c.SetWasmMultiValue(on.MultiValue)
	c.SetWasmRelaxedSIMD(false)
	c.SetWasmThreads(false)
	c.SetWasmMultiMemory(false)
	c.SetWasmMemory64(false)
	c.SetWasmTailCall(false)
	c.SetWasmFunctionReferences(false)
	c.SetWasmGC(false)
	c.SetWasmWideArithmetic(false)
	return wasmtime.NewEngineWithConfig(c)
}

// compile compiles one module to native code and exits: a process that compiled a hostile module
// never runs a guest.
func compile(l *line) error {
	f, err := l.next(wire.MaxBody)
	if err != nil {
		return err
	}
	on, err := wire.As[wire.Features](f, wire.Compile)
	if err != nil {
		return err
	}
	module, err := wasmtime.NewModule(newEngine(on), f.Body)
	if err != nil {
		return wire.Write(l, wire.Failed, wire.Trouble{Problem: err.Error()})
	}
	code, err := module.Serialize()
	if err != nil {
		return wire.Write(l, wire.Failed, wire.Trouble{Problem: err.Error()})
	}
	return wire.Write(l, wire.Compiled, wire.Trouble{}, code)
}

// serve loads a module and runs its calls, one at a time, until palyrad closes the socket. A
// worker has only one module.
func serve(l *line) error {
	f, err := l.next(0)
	if err != nil {
		return err
	}
	on, err := wire.As[wire.Features](f, wire.Load)
	if err != nil {
		return err
	}
	e := newEngine(on)
	module, err := load(e, l.passed)
	if err != nil {
		return wire.Write(l, wire.Failed, wire.Trouble{Problem: err.Error()})
	}
	host, err := newHost(e, l)
	if err != nil {
		return wire.Write(l, wire.Failed, wire.Trouble{Problem: err.Error()})
	}
	if err := wire.Write(l, wire.Loaded, wire.Trouble{}); err != nil {
		return err
	}
	for {
		f, err := l.next(wire.MaxBody)
		if err != nil {
			return err
		}
		order, err := wire.As[wire.Order](f, wire.Call)
		if err != nil {
			return err
		}
		end, body := host.run(e, module, order, f.Body)
		if host.broken != nil {
			return host.broken
		}
		end.Result = len(body[0])
		if err := wire.Write(l, wire.Done, end, body[:]...); err != nil {
			return err
		}
		host.clear()
	}
}

// load maps the code from a descriptor that palyrad passed.
func load(e *wasmtime.Engine, fd int) (*wasmtime.Module, error) {
	if fd < 0 {
		return nil, fmt.Errorf("the load request has no descriptor of a compiled module")
	}
	defer unix.Close(fd)
	return wasmtime.NewModuleDeserializeFile(e, fmt.Sprintf("/proc/self/fd/%d", fd))
}
