package kek

// These identifiers are exported for tests of another package.
var (
	NewFile      = newFile
	NewProtected = newProtected
	NewSession   = newSession
)

// Protection returns the protection that the two functions implement.
func Protection(protect, unprotect func(text, about []byte) ([]byte, error)) protection {
	return protection{protect, unprotect}
}

// Reached sets a function that is called at each step of a change.
func (o Options) Reached(reached func(step string)) Options {
	o.reached = reached
	return o
}

// These are timeouts of the ring.
const (
	HoldTime  = holdTime
	RetryTime = retryTime
)
