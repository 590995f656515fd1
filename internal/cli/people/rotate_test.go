package people_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
	"palyra/internal/identity"
)

// TestRotate: only the bundle's own device gets a new key.
func TestRotate(t *testing.T) {
	t.Parallel()
	const own = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	w := clitest.NewWorld(t)
	w.Gateway.Devices = []*palyrav1.Device{{DeviceId: w.Gateway.Caller.GetDeviceId(), Principal: "user:ada"}}
	before := must.Get(identity.ReadBundle(w.Bundle))(t)
	for _, args := range [][]string{{}, {"--self", own}} {
		w.Want(w.Run(append([]string{"devices", "rotate"}, args...)...), 2)
	}
	r := w.Run("devices", "rotate", "01ARZ3NDEKTSV4RRFFQ69G5FAW")
	if r.Code == 0 || !strings.Contains(r.Err, "palyra devices revoke 01ARZ3NDEKTSV4RRFFQ69G5FAW") || w.Gateway.Renewals != 0 {
		t.Errorf("another's device: exit code %d, %d renewals, %s", r.Code, w.Gateway.Renewals, r.Err)
	}
	w.Want(w.Run("devices", "rotate", "--self"), 0)
	after := must.Get(identity.ReadBundle(w.Bundle))(t)
	if bytes.Equal(before.Chain[0].RawSubjectPublicKeyInfo, after.Chain[0].RawSubjectPublicKeyInfo) || w.Gateway.Renewals != 1 {
		t.Errorf("the key is the same after %d renewals", w.Gateway.Renewals)
	}
	w.Want(w.Run("status"), 0)
	// Without the lock of the directory, no request is sent to the gateway.
	must.Do(t, os.RemoveAll(filepath.Join(w.Bundle, ".lock")))
	must.Do(t, os.Mkdir(filepath.Join(w.Bundle, ".lock"), 0o700))
	if r := w.Run("devices", "rotate", "--self"); r.Code == 0 || w.Gateway.Renewals != 1 {
		t.Errorf("without a lock: exit code %d, %d renewals", r.Code, w.Gateway.Renewals)
	}
	w.Want(w.Run("status"), 0)
}
