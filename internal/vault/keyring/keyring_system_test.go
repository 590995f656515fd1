//go:build darwin || windows

package keyring

import (
	"bytes"
	"errors"
	"testing"

	"github.com/zalando/go-keyring"

	"palyra/internal/core/must"
)

// TestSystemKeyring: values of any bytes are stored unchanged, and the items of two gateways
// are separate. An error distinguishes a missing item from an unavailable keyring.
func TestSystemKeyring(t *testing.T) {
	t.Parallel()
	keyring.MockInit()
	ctx, value := t.Context(), []byte{0, 0xff, '\n', 'x'}
	one, other := Session(nil).OfGateway("one"), Session(nil).OfGateway("another")
	must.Do(t, one.Put(ctx, "key", []byte("before")))
	must.Do(t, one.Put(ctx, "key", value))
	if got := must.Get(one.Get(ctx, "key"))(t); !bytes.Equal(got, value) {
		t.Errorf("it came back as %q", got)
	}
	if _, err := other.Get(ctx, "key"); !errors.Is(err, ErrNotFound) {
		t.Errorf("another gateway: %v", err)
	}
	must.Do(t, one.Delete(ctx, "key"))
	if err := one.Delete(ctx, "key"); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	must.Do(t, keyring.Set(one.service, "key", "not base64!"))
	if _, err := one.Get(ctx, "key"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("an item of another form: %v", err)
	}
	keyring.MockInitWithError(errors.New("it is locked"))
	if _, err := one.Get(ctx, "key"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("a keyring that is locked: %v", err)
	}
}
