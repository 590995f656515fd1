package vault

// OnStep has fn asked after each step of a put and of a rekey; its error ends the work
// there, as a kill would.
func OnStep(w *Wrapper, fn func(step string) error) { w.passed = fn }

// MayRotate reports whether the current key could be replaced now.
func MayRotate(w *Wrapper) bool {
	ok := w.rotating.TryLock()
	if ok {
		w.rotating.Unlock()
	}
	return ok
}
