//go:build cgo && unix

package main

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/bytecodealliance/wasmtime-go/v39"

	"palyra/internal/exec/wasm/module"
	"palyra/internal/exec/wasm/wire"
)

// host provides the functions that guests import. They are linked once; guest is the running one.
type host struct {
	linker *wasmtime.Linker
	line   *line
	watch  watch
	guest  *guest
	store  *wasmtime.Store
	// broken is the error after which palyrad can no longer be reached.
	broken error
}

// guest is one call.
type guest struct {
	order  wire.Order
	input  []byte
	output [2][]byte // standard output and standard error
	// result is the result of the last request to palyrad.
	result []byte
	// memory is the guest's memory, after its first lookup.
	memory *wasmtime.Memory
	// clock is the time for a guest without a clock grant, in nanoseconds.
	clock int64
	// random is the random stream for a guest without a random grant, after its first use.
	random cipher.Stream
	began  time.Time
	end    wire.End
	// ending is set by functions that end the guest.
	ending bool
}

// epoch is the start of the clock without a grant: 2020-01-01T00:00:00Z.
const epoch = 1_577_836_800_000_000_000

// tick is the advance of that clock at each reading: one microsecond.
const tick = 1000

// stream returns the random stream of a seed.
func stream(from []byte) cipher.Stream {
	var seed [32]byte
	copy(seed[:], from)
	block, err := aes.NewCipher(seed[:])
	if err != nil {
		panic(err) // impossible: the key has 32 bytes
	}
	return cipher.NewCTR(block, make([]byte, aes.BlockSize))
}

// run makes one call in a separate store, which clear removes.
func (h *host) run(e *wasmtime.Engine, mod *wasmtime.Module, order wire.Order, input []byte) (wire.End, [2][]byte) {
	g := &guest{order: order, input: input, clock: epoch, began: time.Now()}
	h.guest = g
	store := wasmtime.NewStore(e)
	h.store = store
	store.Limiter(order.MemoryBytes, order.TableElements, 1, int64(module.DefaultLimits().Tables), 1)
	if err := store.SetFuel(order.Fuel); err != nil {
		return wire.End{Outcome: wire.NotStartable, Problem: err.Error()}, g.output
	}
	store.SetEpochDeadline(1)
	h.watch.begin(time.Duration(order.WallMillis) * time.Millisecond)
	defer h.watch.end()

	instance, err := h.linker.Instantiate(store, mod)
	if err == nil {
		err = g.call(store, instance)
	}
	g.conclude(store, instance, err)
	return g.end, g.output
}

// clear removes the store of a call. The result is sent before, because the kernel takes long to
// free a memory with mostly reserved addresses.
func (h *host) clear() {
	h.store.Close()
	h.store, h.guest = nil, nil
}

// call enters the guest.
func (g *guest) call(store *wasmtime.Store, instance *wasmtime.Instance) error {
	if !g.order.ABI {
		_, err := exported(store, instance, "_start").Call(store)
		return err
	}
	at, err := exported(store, instance, "palyra_alloc").Call(store, int32(len(g.input)))
	if err != nil {
		return err
	}
	where, _ := at.(int32)
	if !g.memoryIn(store, instance).write(uint32(where), g.input) {
		return g.bad("palyra_alloc returned an address outside of the memory")
	}
	packed, err := exported(store, instance, "run").Call(store, where, int32(len(g.input)))
	if err != nil {
		return err
	}
	value, _ := packed.(int64)
	ptr, size := uint32(uint64(value)>>32), uint32(value)
	if uint64(size) > uint64(g.order.Output) {
		g.end.Outcome = wire.OutOfOutput
		return errEnded
	}
	text, ok := g.memoryIn(store, instance).slice(ptr, size)
	if !ok {
		return g.bad("run returned a result outside of the memory")
	}
	g.output[0] = append([]byte(nil), text...)
	return nil
}

// errEnded ends a call whose outcome is known.
var errEnded = errors.New("the guest ended")

func (g *guest) bad(problem string) error {
	g.end.Outcome, g.end.Problem = wire.BadResult, problem
	return errEnded
}

// conclude determines the outcome of the call and the resources it used.
func (g *guest) conclude(store *wasmtime.Store, instance *wasmtime.Instance, err error) {
	if left, fuelErr := store.GetFuel(); fuelErr == nil {
		g.end.Fuel = g.order.Fuel - left
	}
	if instance != nil {
		g.end.MemoryBytes = int64(len(g.memoryIn(store, instance)))
	}
	if g.end.Outcome == "" {
		g.end.Outcome = outcomeOf(err)
		if err != nil && g.end.Outcome != wire.OutOfFuel && g.end.Outcome != wire.OutOfTime {
			g.end.Problem = problemOf(err)
		}
	}
	if g.end.Outcome != wire.Trapped && g.end.Outcome != wire.Exited {
		return
	}
	// A refused growth is not a trap, and each guest fails in its own way after it. A guest that
	// failed with all of a limited resource in use counts as having exceeded that limit.
	switch {
	case g.end.MemoryBytes > g.order.MemoryBytes/16*15:
		g.end.Outcome = wire.OutOfMemory
	case instance != nil && largestTable(store, instance) > g.order.TableElements/16*15:
		g.end.Outcome = wire.OutOfTable
	}
}

// trapOutOfFuel is WASMTIME_TRAP_CODE_OUT_OF_FUEL of wasmtime/trap.h. wasmtime-go 39 defines its
// OutOfFuel one lower, which is the number of another trap.
const trapOutOfFuel wasmtime.TrapCode = 12

// outcomeOf determines the outcome from the engine's error.
func outcomeOf(err error) wire.Outcome {
	if err == nil {
		return wire.Finished
	}
	var trap *wasmtime.Trap
	if !errors.As(err, &trap) {
		return wire.NotStartable
	}
	if code := trap.Code(); code != nil {
		switch *code {
		case trapOutOfFuel:
			return wire.OutOfFuel
		case wasmtime.Interrupt:
			return wire.OutOfTime
		case wasmtime.StackOverflow:
			return wire.OutOfStack
		}
	}
	return wire.Trapped
}

// problemOf returns the engine's message without the preceding stack frames of the guest.
func problemOf(err error) string {
	const most = 1000
	text := err.Error()
	if _, cause, ok := strings.Cut(text, "wasm trap: "); ok {
		text = cause
	} else if _, cause, ok := strings.Cut(text, "Caused by:"); ok {
		text = strings.TrimSpace(cause)
	}
	return text[:min(len(text), most)]
}

func largestTable(store *wasmtime.Store, instance *wasmtime.Instance) (most int64) {
	for _, export := range instance.Exports(store) {
		if t := export.Table(); t != nil {
			most = max(most, int64(t.Size(store)))
		}
	}
	return most
}

// exported returns a function that a guest exports.
func exported(store *wasmtime.Store, instance *wasmtime.Instance, name string) *wasmtime.Func {
	export := instance.GetExport(store, name)
	defer export.Close() // the garbage collector would take longer
	return export.Func()
}

// memory is the guest's memory. It must be read again in each function, because it moves when it
// grows.
type memory []byte

// memoryIn returns the memory of a running guest.
func (g *guest) memoryIn(store *wasmtime.Store, instance *wasmtime.Instance) memory {
	return g.memoryOf(store, func(name string) *wasmtime.Extern { return instance.GetExport(store, name) })
}

// memoryOf looks up the memory among the exports once: the exported memory does not change.
func (g *guest) memoryOf(store wasmtime.Storelike, export func(string) *wasmtime.Extern) memory {
	if g.memory == nil {
		found := export("memory")
		if found == nil {
			return nil
		}
		defer found.Close()
		if g.memory = found.Memory(); g.memory == nil {
			return nil
		}
	}
	return g.memory.UnsafeData(store)
}

func (m memory) slice(at, size uint32) ([]byte, bool) {
	if uint64(at)+uint64(size) > uint64(len(m)) {
		return nil, false
	}
	return m[at : uint64(at)+uint64(size) : uint64(at)+uint64(size)], true
}

func (m memory) write(at uint32, data []byte) bool {
	if uint64(at)+uint64(len(data)) > uint64(len(m)) {
		return false
	}
	copy(m[at:], data)
	return true
}

func (m memory) u32(at uint32) (uint32, bool) {
	b, ok := m.slice(at, 4)
	if !ok {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b), true
}

func (m memory) put32(at, value uint32) bool {
	return m.write(at, binary.LittleEndian.AppendUint32(nil, value))
}

func (m memory) put64(at uint32, value uint64) bool {
	return m.write(at, binary.LittleEndian.AppendUint64(nil, value))
}
