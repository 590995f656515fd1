package call

import "runtime"

// Deepen gives a new goroutine at once the stack that Call and the store below it need.
// It would double again and again on the way there, and each time all that is on it is
// moved. Whoever makes a goroutine for a call deepens it first.
//
//go:noinline
func Deepen() {
	var room [20 << 10]byte
	runtime.KeepAlive(&room)
}
