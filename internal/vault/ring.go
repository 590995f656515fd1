package vault

import "context"

// Ring wraps keys for packages that do not use Box, such as results at rest (atrest.Ring).
type Ring struct{ Wrapper *Wrapper }

// Wrap wraps a key and stores it with keep. It fails if keep does.
func (r Ring) Wrap(ctx context.Context, about string, key []byte, keep func(by string, box []byte) error) error {
	return r.Wrapper.Wrap(ctx, about, key, func(b Box) error { return keep(b.KEK, b.Key) })
}

// Unwrap returns a key that Wrap wrapped. The caller clears it.
func (r Ring) Unwrap(ctx context.Context, about, id string, box []byte) ([]byte, error) {
	return r.Wrapper.Unwrap(ctx, Box{About: about, KEK: id, Key: box})
}
