package toolcall

import "runtime"

// Deepen gives a new goroutine at once the stack that Call and the store below it need.
// It would double again and again on the way there, and each time all that is on it is
// moved. Whoever makes a goroutine for a call deepens it first. Calls of tools without a
// process need up to 27 KiB; with what the surface has on it, this makes 32.
//
//go:noinline
func Deepen() {
	var room [26 << 10]byte
	runtime.KeepAlive(&room)
}
