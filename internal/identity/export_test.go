package identity

// Reached sets what is told of each step of a renewal.
func (r *Renewal) Reached(fn func(step string)) { r.reached = fn }

// LockBundle takes the lock of a bundle, as a process that renews it does.
var LockBundle = lockBundle
