package identity

// Reached sets the function that is called at each step of a renewal.
func (r *Renewal) Reached(fn func(step string)) { r.reached = fn }

// LockBundle locks a bundle, as a renewing process does.
var LockBundle = lockBundle
