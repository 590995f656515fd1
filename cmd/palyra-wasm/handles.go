//go:build cgo && unix

package main

import (
	"fmt"

	"palyra/internal/exec/wasm/wire"
)

// maxPiece is the maximum size of each piece of memory in a request, and of the result, in bytes.
const maxPiece = 4 << 20

// refused is the return value of a function with invalid arguments.
const refused = uint64(0xffff_ffff)

// handles is the handle interface. Only palyrad knows the meaning of a handle, so every
// function sends a request to palyrad, except functions that read local data.
var handles = map[string]function{
	"grant_open":     question("grant_open", 1, 1),
	"grant_count":    question("grant_count", 1, 0),
	"grant_at":       question("grant_at", 2, 0),
	"grant_name":     question("grant_name", 1, 0),
	"http_request":   question("http_request", 1, 1),
	"secret_read":    question("secret_read", 1, 0),
	"channel_send":   question("channel_send", 1, 1),
	"storage_get":    question("storage_get", 1, 1),
	"storage_put":    question("storage_put", 1, 2),
	"storage_delete": question("storage_delete", 1, 1),
	"storage_list":   question("storage_list", 1, 1),
	"log":            question("log", 1, 1),
	"result_read":    resultRead,
	"now":            func(h *host, _ memory, _ []uint64) uint64 { return uint64(h.guest.now()) },
	"random":         randomGet,
}

// question sends a request to palyrad, with the first arguments as numbers, and with pieces of
// memory that the other arguments name by address and size.
func question(name string, numbers, pieces int) function {
	return func(h *host, m memory, a []uint64) uint64 {
		q := wire.Question{Function: name}
		for _, n := range a[:numbers] {
			q.Numbers = append(q.Numbers, int32(uint32(n)))
		}
		var data [2][]byte
		for i := range pieces {
			piece, there := m.slice(uint32(a[numbers+2*i]), uint32(a[numbers+2*i+1]))
			if !there || len(piece) > maxPiece {
				return refused
			}
			data[i] = piece
		}
		q.First = len(data[0])
		return h.ask(q, data[:pieces])
	}
}

// ask waits for palyrad's answer. Without an answer, the guest ends, and so does the worker.
func (h *host) ask(q wire.Question, data [][]byte) uint64 {
	reply, result, err := h.exchange(q, data)
	if err != nil {
		h.broken = err
		return h.guest.endsWith(wire.Trapped, "palyrad did not answer")
	}
	h.guest.result = result
	return uint64(uint32(reply.Value))
}

func (h *host) exchange(q wire.Question, data [][]byte) (wire.Reply, []byte, error) {
	if err := wire.Write(h.line, wire.Ask, q, data...); err != nil {
		return wire.Reply{}, nil, err
	}
	f, err := h.line.next(maxPiece)
	if err != nil {
		return wire.Reply{}, nil, fmt.Errorf("waiting for an answer: %w", err)
	}
	reply, err := wire.As[wire.Reply](f, wire.Answer)
	return reply, f.Body, err
}

// resultRead returns as much of the last request's result as fits.
func resultRead(h *host, m memory, a []uint64) uint64 {
	to, there := m.slice(uint32(a[0]), uint32(a[1]))
	if !there {
		return refused
	}
	return uint64(copy(to, h.guest.result))
}
