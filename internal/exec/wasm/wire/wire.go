// Package wire implements the protocol between palyrad and its WASM worker over one socket:
// frames with a kind, a small JSON head and a body of bytes. The worker is not trusted, so each
// side limits the size of the frames that it reads.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Kind is the kind of a frame.
type Kind byte

// Frames from palyrad.
const (
	// Compile has a module as its body; the answer is Compiled or Failed. A worker for compiling
	// receives no other frame.
	Compile Kind = 1 + iota
	// Load is sent with a descriptor of a compiled module; the answer is Loaded or Failed.
	Load
	// Call has the input as its body; the answer is any number of Asks, then Done.
	Call
	// Answer follows an Ask.
	Answer
)

// Frames from a worker.
const (
	// Ready is the first frame.
	Ready Kind = 16 + iota
	Compiled
	Loaded
	// Ask is a call of a function that palyrad answers.
	Ask
	// Done ends a call; its body contains the result of the guest.
	Done
	// Failed replaces Compiled or Loaded.
	Failed
)

// Limits of a frame, in bytes.
const (
	MaxHead = 64 << 10
	// MaxBody is sufficient for the compiled code of the largest module.
	MaxBody = 256 << 20
)

// Greeting is the head of Ready.
type Greeting struct {
	// Engine is the engine's name and version; compiled code is valid for one engine only.
	Engine string `json:"engine"`
}

// Features are the enabled features in addition to WebAssembly 2.0 without SIMD and multi-value.
// They are in the heads of Compile and Load.
type Features struct {
	SIMD       bool `json:"simd,omitempty"`
	MultiValue bool `json:"multi_value,omitempty"`
}

// Order is the head of Call.
type Order struct {
	// ABI selects the function run; otherwise _start is called.
	ABI bool `json:"abi,omitempty"`
	// Tool is the guest's only argument.
	Tool string `json:"tool"`
	Fuel uint64 `json:"fuel"`
	// MemoryBytes limits the guest's memory, TableElements each of its tables, and Output standard
	// output and standard error each, in bytes.
	MemoryBytes   int64 `json:"memory_bytes"`
	TableElements int64 `json:"table_elements"`
	Output        int   `json:"output"`
	// WallMillis is the maximum duration.
	WallMillis int64 `json:"wall_ms"`
	// Seed seeds the guest's randomness if the guest has no grant for real randomness.
	Seed []byte `json:"seed"`
	// Clock and Random are grants.
	Clock  bool `json:"clock,omitempty"`
	Random bool `json:"random,omitempty"`
}

// Question is the head of Ask: a function of the handle interface and its numbers. The body
// contains its two pieces of data.
type Question struct {
	Function string  `json:"function"`
	Numbers  []int32 `json:"numbers,omitempty"`
	// First is the length of the first piece in the body; the rest is the second.
	First int `json:"first,omitempty"`
}

// Reply is the head of Answer: the return value of the function. Its body is the data for
// result_read.
type Reply struct {
	Value int32 `json:"value"`
}

// Outcome is the way a call ended.
type Outcome string

// The outcomes.
const (
	Finished Outcome = "finished"
	// Exited is proc_exit with a code other than 0.
	Exited       Outcome = "exited"
	OutOfFuel    Outcome = "fuel"
	OutOfTime    Outcome = "wall_clock"
	OutOfMemory  Outcome = "memory"
	OutOfTable   Outcome = "table"
	OutOfStack   Outcome = "stack"
	OutOfOutput  Outcome = "output"
	Trapped      Outcome = "trap"
	BadResult    Outcome = "bad_result"
	NotStartable Outcome = "not_startable"
)

// End is the head of Done. The body is the result, then standard error.
type End struct {
	Outcome Outcome `json:"outcome"`
	// Exit is the code of proc_exit.
	Exit int32 `json:"exit,omitempty"`
	// Problem is the engine's message for a trap.
	Problem string `json:"problem,omitempty"`
	// Fuel is the used fuel, and MemoryBytes the final size of the guest's memory.
	Fuel        uint64 `json:"fuel"`
	MemoryBytes int64  `json:"memory_bytes"`
	// Result is the length of the result in the body; the rest is standard error.
	Result int `json:"result"`
	// Clock and Random count the uses of the real clock and randomness.
	Clock  int `json:"clock,omitempty"`
	Random int `json:"random,omitempty"`
}

// Trouble is the head of Failed.
type Trouble struct {
	Problem string `json:"problem"`
}

// headerBytes is the size of a kind and of the lengths of head and body.
const headerBytes = 1 + 4 + 4

// Frame is a received frame.
type Frame struct {
	Kind Kind
	Head []byte
	Body []byte
}

// AppendHeader appends the header of a frame.
func AppendHeader(to []byte, kind Kind, head, body int) []byte {
	to = append(to, byte(kind))
	to = binary.BigEndian.AppendUint32(to, uint32(head))
	return binary.BigEndian.AppendUint32(to, uint32(body))
}

// together is the maximum size, in bytes, of bodies that are copied so that a frame is sent by
// one write: each write may wake the other side.
const together = 64 << 10

// Write sends a frame with head encoded as JSON.
func Write(w io.Writer, kind Kind, head any, body ...[]byte) error {
	text, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("encoding a frame: %w", err)
	}
	size := 0
	for _, b := range body {
		size += len(b)
	}
	if len(text) > MaxHead || size > MaxBody {
		return fmt.Errorf("a frame of %d and %d bytes is too large", len(text), size)
	}
	room := headerBytes + len(text)
	if size <= together {
		room += size
	}
	out := append(AppendHeader(make([]byte, 0, room), kind, len(text), size), text...)
	for _, b := range body {
		if size <= together {
			out = append(out, b...)
			continue
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
		out = b
	}
	_, err = w.Write(out)
	return err
}

// Read reads a frame whose body has at most most bytes.
func Read(r io.Reader, most int) (Frame, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Kind: Kind(header[0])}
	head, body := binary.BigEndian.Uint32(header[1:]), binary.BigEndian.Uint32(header[5:])
	if head > MaxHead || uint64(body) > uint64(most) {
		return Frame{}, fmt.Errorf("a frame of %d and %d bytes exceeds the limits of %d and %d bytes", head, body, MaxHead, most)
	}
	both := make([]byte, int(head)+int(body))
	if _, err := io.ReadFull(r, both); err != nil {
		return Frame{}, fmt.Errorf("a frame is truncated: %w", err)
	}
	f.Head, f.Body = both[:head:head], both[head:]
	return f, nil
}

// As decodes a frame's head, and refuses a frame of another kind.
func As[T any](f Frame, kind Kind) (head T, err error) {
	if f.Kind != kind {
		return head, fmt.Errorf("a frame of kind %d was received instead of kind %d", f.Kind, kind)
	}
	// jsonv2 takes half of the time of encoding/json, and refuses duplicate members.
	if err := jsonv2.Unmarshal(f.Head, &head, jsontext.AllowInvalidUTF8(true)); err != nil {
		return head, fmt.Errorf("the head of a frame of kind %d: %w", f.Kind, err)
	}
	return head, nil
}
