package vault

import "context"

// OnStep calls fn after each step of a put and of a rekey. An error of fn ends the work there,
// as a kill would.
func OnStep(w *Wrapper, fn func(step string) error) { w.passed = fn }

// MayRotate reports whether the current key could be replaced now.
func MayRotate(w *Wrapper) bool {
	ok := w.rotating.TryLock()
	if ok {
		w.rotating.Unlock()
	}
	return ok
}

// Reseal changes the metadata of a record in the form of another release.
func Reseal(ctx context.Context, s *Service, r *Record, edit func(*Secret)) error {
	v, _ := r.version(r.Newest)
	key, err := s.records.dataKey(ctx, r.Ref, v)
	if err != nil {
		return err
	}
	m, err := openMetadata(key, *r)
	if err != nil {
		return err
	}
	edit(&m)
	r.Metadata, r.Seal, err = sealMetadata(key, m)
	return err
}
