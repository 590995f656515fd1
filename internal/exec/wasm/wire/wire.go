// Package wire is how palyrad and its WASM worker speak over one socket: frames with a
// kind, a small head in JSON and a body of bytes. The worker is not trusted, so that each
// side bounds what it reads.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Kind says what a frame is.
type Kind byte

// What palyrad sends.
const (
	// Compile has a module as its body; the answer is Compiled or Failed. It is the only
	// frame that a worker for compiling gets.
	Compile Kind = 1 + iota
	// Load comes with a descriptor of a compiled module; the answer is Loaded or Failed.
	Load
	// Call has the input as its body; the answer is any number of Asks, then Done.
	Call
	// Answer follows an Ask.
	Answer
)

// What a worker sends.
const (
	// Ready is its first word.
	Ready Kind = 16 + iota
	Compiled
	Loaded
	// Ask is a call of a function that palyrad answers.
	Ask
	// Done ends a call; its body is what the guest wrote to its result.
	Done
	// Failed is in place of Compiled or Loaded.
	Failed
)

// Bounds of a frame, in bytes.
const (
	MaxHead = 64 << 10
	// MaxBody holds the compiled code of the largest module.
	MaxBody = 256 << 20
)

// Greeting is the head of Ready.
type Greeting struct {
	// Engine is the engine's name and version; compiled code is of one engine.
	Engine string `json:"engine"`
}

// Features are what is on beside WebAssembly 2.0 without SIMD and multi-value. They are in
// the heads of Compile and Load.
type Features struct {
	SIMD       bool `json:"simd,omitempty"`
	MultiValue bool `json:"multi_value,omitempty"`
}

// Order is the head of Call.
type Order struct {
	// ABI calls run; else _start is called.
	ABI bool `json:"abi,omitempty"`
	// Tool is the guest's only argument.
	Tool string `json:"tool"`
	Fuel uint64 `json:"fuel"`
	// MemoryBytes bounds its memory, TableElements each of its tables, Output each of
	// standard output and standard error in bytes.
	MemoryBytes   int64 `json:"memory_bytes"`
	TableElements int64 `json:"table_elements"`
	Output        int   `json:"output"`
	// WallMillis is how long it may run.
	WallMillis int64 `json:"wall_ms"`
	// Seed is what its randomness comes from where it has no grant for the real one.
	Seed []byte `json:"seed"`
	// Clock and Random are grants.
	Clock  bool `json:"clock,omitempty"`
	Random bool `json:"random,omitempty"`
}

// Question is the head of Ask: a function of the interface of handles, its numbers, and
// the sizes of its two pieces of data, which are the body.
type Question struct {
	Function string  `json:"function"`
	Numbers  []int32 `json:"numbers,omitempty"`
	// First is how much of the body is the first piece; the rest is the second.
	First int `json:"first,omitempty"`
}

// Reply is the head of Answer: what the function returns. Its body is what result_read
// gives.
type Reply struct {
	Value int32 `json:"value"`
}

// Outcome is how a call ended.
type Outcome string

// The outcomes.
const (
	Finished Outcome = "finished"
	// Exited is proc_exit with another code than 0.
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
	// Problem is what the engine says of a trap.
	Problem string `json:"problem,omitempty"`
	// Fuel is what was used, MemoryBytes what the guest's memory grew to.
	Fuel        uint64 `json:"fuel"`
	MemoryBytes int64  `json:"memory_bytes"`
	// Result is how much of the body is the result; the rest is standard error.
	Result int `json:"result"`
	// Clock and Random count the uses of the real ones.
	Clock  int `json:"clock,omitempty"`
	Random int `json:"random,omitempty"`
}

// Trouble is the head of Failed.
type Trouble struct {
	Problem string `json:"problem"`
}

// headerBytes is a kind and the sizes of head and body.
const headerBytes = 1 + 4 + 4

// Frame is one frame as it was read.
type Frame struct {
	Kind Kind
	Head []byte
	Body []byte
}

// AppendHeader appends what stands before each frame.
func AppendHeader(to []byte, kind Kind, head, body int) []byte {
	to = append(to, byte(kind))
	to = binary.BigEndian.AppendUint32(to, uint32(head))
	return binary.BigEndian.AppendUint32(to, uint32(body))
}

// together bounds the bodies, in bytes, that are copied so that a frame goes out by one
// write: each write may wake the other side.
const together = 64 << 10

// Write sends a frame whose head is head as JSON.
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

// Read takes a frame whose body has at most most bytes.
func Read(r io.Reader, most int) (Frame, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Kind: Kind(header[0])}
	head, body := binary.BigEndian.Uint32(header[1:]), binary.BigEndian.Uint32(header[5:])
	if head > MaxHead || uint64(body) > uint64(most) {
		return Frame{}, fmt.Errorf("a frame of %d and %d bytes is larger than the %d and %d that are taken", head, body, MaxHead, most)
	}
	both := make([]byte, int(head)+int(body))
	if _, err := io.ReadFull(r, both); err != nil {
		return Frame{}, fmt.Errorf("a frame was cut off: %w", err)
	}
	f.Head, f.Body = both[:head:head], both[head:]
	return f, nil
}

// As reads a frame's head, and refuses a frame of another kind.
func As[T any](f Frame, kind Kind) (head T, err error) {
	if f.Kind != kind {
		return head, fmt.Errorf("a frame of kind %d came in place of one of kind %d", f.Kind, kind)
	}
	// It takes half of the time of encoding/json, and refuses what is said twice.
	if err := jsonv2.Unmarshal(f.Head, &head, jsontext.AllowInvalidUTF8(true)); err != nil {
		return head, fmt.Errorf("the head of a frame of kind %d: %w", f.Kind, err)
	}
	return head, nil
}
