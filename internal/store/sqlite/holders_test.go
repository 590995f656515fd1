package sqlite_test

import (
	"path/filepath"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/deliveries"
	"palyra/internal/store/sqlite/sqlitetest"
)

// TestHoldersAtTheUpgrade: secrets of agents and skills that a release before put belong to
// the owner and the key in force at the upgrade, and users of chats wait for consent.
func TestHoldersAtTheUpgrade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "palyra.db")
	events, opts := olderJournal(t)
	must.Do(t, sqlite.MakeOlder(path, 35, events, `
INSERT INTO members (principal, owner, roles, disabled, created_at, removed_at) VALUES
 ('user:ann', '', '["owner"]', 0, 1, NULL), ('agent:bot', 'user:ann', '["agent"]', 0, 1, NULL), ('agent:gone', 'user:ann', '["agent"]', 1, 1, 2);
INSERT INTO skills (skill, version, publisher, key_id, digest, status, why, current, installed_by, installed_at, changed_by, changed_at) VALUES
 ('web', '1.0.0', 'p', 'SHA256:old', 'd', 'disabled', '', 0, 'user:ann', 1, 'user:ann', 1),
 ('web', '1.1.0', 'p', 'SHA256:new', 'd', 'active', '', 1, 'user:ann', 1, 'user:ann', 1);
INSERT INTO secrets (scope, key, newest, metadata, seal, placed) VALUES
 ('agent:bot', 'k', 1, X'7B7D', X'00', 0), ('agent:gone', 'k', 1, X'7B7D', X'00', 0), ('agent:never', 'k', 1, X'7B7D', X'00', 0),
 ('skill:web', 'k', 1, X'7B7D', X'00', 0), ('skill:never', 'k', 1, X'7B7D', X'00', 0), ('global', 'k', 1, X'7B7D', X'00', 0), ('user:ann', 'k', 1, X'7B7D', X'00', 0);
INSERT INTO chat_users (id, team, user, member, mapped_by, mapped_at) VALUES ('01M', 'T1', 'U1', 'user:ann', 'user:bob', 1);`))
	db := sqlitetest.OpenAt(t, path, opts)
	got := map[string]string{}
	must.Do(t, db.Read(t.Context(), func(c *sqlite.Conn) error {
		return c.Query("SELECT scope, held_by FROM secrets", func(r *sqlite.Row) error {
			got[r.Text(0)] = r.Text(1)
			return nil
		})
	}))
	for scope, want := range map[string]string{
		"agent:bot": "user:ann", "agent:gone": "", "agent:never": "", "skill:web": "SHA256:new", "skill:never": "", "global": "", "user:ann": "",
	} {
		if got[scope] != want {
			t.Errorf("%s is held by %q, want %q", scope, got[scope], want)
		}
	}
	if users := must.Get(deliveries.New(db).ChatUsers(t.Context()))(t); len(users) != 1 || users[0].Votes() {
		t.Errorf("users of chats: %+v", users)
	}
}
