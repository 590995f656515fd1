package identity_test

import (
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
)

func TestRenamedDevice(t *testing.T) {
	t.Parallel()
	w, made := team(t)
	bob, alice := made["bob"].Device.ID, made["alice"].Device.ID
	n := len(w.store.Events())
	for name, x := range map[string]struct {
		actor        access.Principal
		device, name string
		want         reason.Code
	}{
		"by an operator":       {access.User("carol"), bob, "x", reason.PermissionDenied},
		"an owner's by admin":  {access.User("adam"), alice, "x", reason.PermissionDenied},
		"no device":            {access.User("alice"), "01JNA3Q0G0DEV1CE0000000099", "x", reason.NotFound},
		"no name":              {access.User("alice"), bob, "", reason.InvalidInput},
		"a name with a break":  {access.User("alice"), bob, "a\nb", reason.InvalidInput},
		"a name that turns":    {access.User("alice"), bob, "a\u202eb", reason.InvalidInput},
		"a name that is large": {access.User("alice"), bob, strings.Repeat("x", 64), reason.InvalidInput},
	} {
		_, err := w.Devices.RenameDevice(t.Context(), x.actor, x.device, x.name)
		reasontest.Want(t, name, err, x.want)
	}
	w.journaled(n)
	for _, actor := range []string{"bob", "adam", "alice"} {
		if d := must.Get(w.Devices.RenameDevice(t.Context(), access.User(actor), bob, actor+"s choice"))(t); d.Name != actor+"s choice" {
			t.Errorf("%+v", d)
		}
	}
	must.Get(w.Devices.RenameDevice(t.Context(), access.User("alice"), bob, "alices choice"))(t)
	w.journaled(n, event.DeviceRenamed, event.DeviceRenamed, event.DeviceRenamed)
	if _, err := w.Callers.Authenticate(chainOf(made["bob"])); err != nil {
		t.Errorf("a renamed device: %v", err)
	}
	w.restart()
	if d, _ := w.Directory.Device(bob); d.Name != "alices choice" {
		t.Errorf("after a restart: %+v", d)
	}
	w.revoke(bob)
	_, err := w.Devices.RenameDevice(t.Context(), access.User("alice"), bob, "x")
	reasontest.Want(t, "a revoked device", err, reason.InvalidInput)
}
