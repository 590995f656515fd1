package sqlite_test

import (
	"slices"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/identity"
	"palyra/internal/identity/identitytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

func TestIdentityStore(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	identitytest.RunStore(t, db.Identity(), func() (n int) {
		must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
			return c.Query("SELECT count(*) FROM events WHERE code = ?1", func(r *sqlite.Row) error {
				n = r.Int(0)
				return nil
			}, event.MemberAdded)
		}))
		return n
	})
}

// A device of a release before has the one key that it had, which was in use.
func TestDeviceOfBeforeHasItsKey(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	at := time.Unix(1000, 0).UTC()
	member := access.Member{Principal: access.User("ada"), Roles: []access.Role{access.RoleOwner}, CreatedAt: at}
	dev := identity.Device{ID: "01JNA3Q0G0DEV1CE0000000001", Principal: member.Principal, KeySHA256: "sha256:00", CreatedAt: at, NotAfter: at.Add(time.Hour), Version: 1}
	must.Do(t, db.Identity().Apply(t.Context(), identity.Change{NewMembers: []access.Member{member}, NewDevices: []identity.Device{dev}}))
	must.Do(t, sqlite.Exec(db, "UPDATE devices SET keys = ''"))
	list := must.Get(db.Identity().Devices(t.Context()))(t)
	want := []identity.Key{{SHA256: "sha256:00", NotAfter: dev.NotAfter, UsedAt: at}}
	if len(list) != 1 || !slices.Equal(list[0].Keys, want) {
		t.Errorf("devices %+v", list)
	}
}
