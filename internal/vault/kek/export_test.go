package kek

// What tests of another package see.
var (
	NewFile      = newFile
	NewProtected = newProtected
	NewSession   = newSession
)

// Protection is a protection of two functions.
func Protection(protect, unprotect func(text, about []byte) ([]byte, error)) protection {
	return protection{protect, unprotect}
}

// Reached has a test told of each step of a change.
func (o Options) Reached(reached func(step string)) Options {
	o.reached = reached
	return o
}

// Times of the ring.
const (
	HoldTime  = holdTime
	RetryTime = retryTime
)
