package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/passkey"
)

// IdentityStore keeps members and devices in the embedded store.
type IdentityStore struct{ db *DB }

var _ identity.Store = IdentityStore{}

// NewIdentity returns the members and devices in db.
func NewIdentity(db *DB) IdentityStore { return IdentityStore{db} }

// Members returns all members, disabled and removed ones included, by principal.
func (s IdentityStore) Members(ctx context.Context) ([]access.Member, error) {
	return list(ctx, s.db, "reading members", scanMember,
		"SELECT principal, owner, roles, disabled, created_at, removed_at, awaits_consent FROM members ORDER BY principal")
}

func scanMember(r *Row) (access.Member, error) {
	m := access.Member{Disabled: r.Bool(3), CreatedAt: r.Time(4), RemovedAt: r.Time(5), AwaitsConsent: r.Bool(6)}
	m.Disabled = m.Disabled || m.Removed() // a removal overrides the stored flag
	if err := m.Principal.UnmarshalText(r.Bytes(0)); err != nil {
		return m, err
	}
	if err := m.Owner.UnmarshalText(r.Bytes(1)); err != nil {
		return m, err
	}
	if err := json.Unmarshal(r.Bytes(2), &m.Roles); err != nil {
		return m, fmt.Errorf("roles of %s: %w", m.Principal, err)
	}
	return m, nil
}

const deviceColumns = `id, principal, name, local, serial, key_sha256, created_at, not_after, revoked_at, revoked_by, revoke_reason, version, login_until, keys, old_key_at, presence`

// Devices returns all devices, revoked ones included, by ID.
func (s IdentityStore) Devices(ctx context.Context) ([]identity.Device, error) {
	return list(ctx, s.db, "reading devices", scanDevice, "SELECT "+deviceColumns+" FROM devices ORDER BY id")
}

func scanDevice(r *Row) (identity.Device, error) {
	d := identity.Device{
		ID: r.Text(0), Name: r.Text(2), Local: r.Bool(3), Serial: r.Text(4), KeySHA256: r.Text(5),
		CreatedAt: r.Time(6), NotAfter: r.Time(7), RevokedAt: r.Time(8), RevokeReason: r.Text(10), Version: r.Int64(11),
		LoginUntil: r.Time(12), OldKeyAt: r.Time(14),
	}
	if err := json.Unmarshal(r.Bytes(13), &d.Keys); err != nil {
		return d, fmt.Errorf("keys of device %s: %w", d.ID, err)
	}
	if text := r.Bytes(15); len(text) > 0 {
		if err := json.Unmarshal(text, &d.Presence); err != nil {
			return d, fmt.Errorf("presence key of device %s: %w", d.ID, err)
		}
	}
	if err := d.Principal.UnmarshalText(r.Bytes(1)); err != nil {
		return d, err
	}
	return d, d.RevokedBy.UnmarshalText(r.Bytes(9))
}

// Apply stores the change and its events in one unit.
func (s IdentityStore) Apply(ctx context.Context, c identity.Change) error {
	_, err := s.db.Commit(ctx, Unit{Events: c.Events, Check: func(tx *Tx) error { return applyIdentity(tx, c) }})
	return err
}

func applyIdentity(tx *Tx, c identity.Change) error {
	for _, m := range c.NewMembers {
		if err := insertMember(tx, m); err != nil {
			return err
		}
	}
	for _, m := range c.Members {
		if err := updateMember(tx, m); err != nil {
			return err
		}
	}
	for _, d := range c.NewDevices {
		if err := insertDevice(tx, d); err != nil {
			return err
		}
	}
	for _, d := range c.Devices {
		if err := updateDevice(tx, d); err != nil {
			return err
		}
	}
	for _, b := range c.NewBindings {
		if err := insertBinding(tx, b); err != nil {
			return err
		}
	}
	for _, id := range c.Forgotten {
		if err := forgetSession(tx, id); err != nil {
			return err
		}
	}
	for _, act := range c.Acts {
		if err := insertAct(tx, act); err != nil {
			return err
		}
	}
	return nil
}

// Bindings returns the mapping of external identities to members.
func (s IdentityStore) Bindings(ctx context.Context) ([]identity.Binding, error) {
	return list(ctx, s.db, "reading who logs in", scanBinding, "SELECT issuer, subject, member, made_at FROM logins")
}

func scanBinding(r *Row) (identity.Binding, error) {
	b := identity.Binding{Issuer: r.Text(0), Subject: r.Text(1), MadeAt: r.Time(3)}
	return b, b.Member.UnmarshalText(r.Bytes(2))
}

// insertBinding returns reason.AlreadyExists if the person or the member is already bound.
func insertBinding(tx *Tx, b identity.Binding) error {
	n, err := tx.Exec("INSERT INTO logins (issuer, subject, member, made_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
		b.Issuer, b.Subject, b.Member.String(), b.MadeAt)
	if err != nil {
		return fmt.Errorf("binding %s: %w", b.Member, err)
	}
	if n == 0 {
		return reason.Errorf(reason.AlreadyExists, "the person %s or the member %s is bound already", b.Subject, b.Member)
	}
	return nil
}

// forgetSession deletes the device of a session. It deletes no other device.
func forgetSession(tx *Tx, id string) error {
	n, err := tx.Exec("DELETE FROM devices WHERE id = ?1 AND login_until IS NOT NULL", id)
	if err != nil {
		return fmt.Errorf("forgetting session %s: %w", id, err)
	}
	if n == 0 {
		return reason.Errorf(reason.NotFound, "session %s not found", id)
	}
	return nil
}

// Provenance returns the acts on members, oldest first.
func (s IdentityStore) Provenance(ctx context.Context) (provenance.History, error) {
	return list(ctx, s.db, "reading the history of members", scanAct, "SELECT member, kind, by, at FROM member_acts ORDER BY n")
}

func scanAct(r *Row) (provenance.Act, error) {
	act := provenance.Act{Kind: provenance.Kind(r.Text(1)), At: r.Time(3)}
	if err := act.Member.UnmarshalText(r.Bytes(0)); err != nil {
		return act, err
	}
	if err := json.Unmarshal(r.Bytes(2), &act.By); err != nil {
		return act, fmt.Errorf("reading the history of %s: %w", act.Member, err)
	}
	return act, nil
}

func insertAct(tx *Tx, act provenance.Act) error {
	by, err := json.Marshal(append([]access.Principal{}, act.By...))
	if err != nil {
		return fmt.Errorf("encoding the history of %s: %w", act.Member, err)
	}
	if _, err := tx.Exec("INSERT INTO member_acts (member, kind, by, at) VALUES (?1, ?2, ?3, ?4)",
		act.Member.String(), string(act.Kind), string(by), act.At); err != nil {
		return fmt.Errorf("recording an act on %s: %w", act.Member, err)
	}
	return nil
}

func insertMember(tx *Tx, m access.Member) error {
	roles, err := json.Marshal(m.Roles)
	if err != nil {
		return fmt.Errorf("roles of %s: %w", m.Principal, err)
	}
	n, err := tx.Exec(`INSERT INTO members (principal, owner, roles, disabled, created_at, awaits_consent)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING`,
		m.Principal.String(), m.Owner.String(), string(roles), m.Disabled, m.CreatedAt, m.AwaitsConsent)
	if err != nil {
		return fmt.Errorf("adding member %s: %w", m.Principal, err)
	}
	if n == 0 {
		return reason.Errorf(reason.AlreadyExists, "the member %s already exists", m.Principal)
	}
	return nil
}

// updateMember never reverts a removal.
func updateMember(tx *Tx, m access.Member) error {
	roles, err := json.Marshal(m.Roles)
	if err != nil {
		return fmt.Errorf("roles of %s: %w", m.Principal, err)
	}
	n, err := tx.Exec("UPDATE members SET owner = ?2, roles = ?3, disabled = ?4, removed_at = ?5, awaits_consent = ?6 WHERE principal = ?1 AND removed_at IS NULL",
		m.Principal.String(), m.Owner.String(), string(roles), m.Disabled, m.RemovedAt, m.AwaitsConsent)
	if err != nil {
		return fmt.Errorf("changing member %s: %w", m.Principal, err)
	}
	if n == 1 {
		return nil
	}
	found, err := tx.QueryRow("SELECT 1 FROM members WHERE principal = ?1", func(*Row) error { return nil }, m.Principal.String())
	if err != nil {
		return fmt.Errorf("changing member %s: %w", m.Principal, err)
	}
	if !found {
		return reason.Errorf(reason.NotFound, "member %s not found", m.Principal)
	}
	return fmt.Errorf("member %s was removed: %w", m.Principal, identity.ErrConflict)
}

// keysOf returns the keys of a device and its presence key in their stored form.
func keysOf(d identity.Device) (keys, presence []byte, err error) {
	if keys, err = json.Marshal(d.Keys); err == nil {
		presence, err = json.Marshal(d.Presence)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("keys of device %s: %w", d.ID, err)
	}
	return keys, presence, nil
}

func insertDevice(tx *Tx, d identity.Device) error {
	keys, presence, err := keysOf(d)
	if err != nil {
		return err
	}
	n, err := tx.Exec("INSERT INTO devices ("+deviceColumns+`)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) ON CONFLICT DO NOTHING`,
		d.ID, d.Principal.String(), d.Name, d.Local, d.Serial, d.KeySHA256, d.CreatedAt, d.NotAfter,
		d.RevokedAt, d.RevokedBy.String(), d.RevokeReason, d.Version, d.LoginUntil, string(keys), d.OldKeyAt, string(presence))
	if err != nil {
		return fmt.Errorf("adding device %s: %w", d.ID, err)
	}
	if n == 0 {
		return reason.Errorf(reason.AlreadyExists, "the device %s already exists", d.ID)
	}
	return nil
}

// updateDevice never changes the owner of a device and never reverts a revocation.
func updateDevice(tx *Tx, d identity.Device) error {
	keys, presence, err := keysOf(d)
	if err != nil {
		return err
	}
	n, err := tx.Exec(`UPDATE devices SET name = ?2, serial = ?3, key_sha256 = ?4, not_after = ?5,
 revoked_at = ?6, revoked_by = ?7, revoke_reason = ?8, version = ?9, login_until = ?10, keys = ?11, old_key_at = ?12, presence = ?13
 WHERE id = ?1 AND version = ?9 - 1 AND revoked_at IS NULL`,
		d.ID, d.Name, d.Serial, d.KeySHA256, d.NotAfter, d.RevokedAt, d.RevokedBy.String(), d.RevokeReason, d.Version, d.LoginUntil, string(keys), d.OldKeyAt, string(presence))
	if err != nil {
		return fmt.Errorf("changing device %s: %w", d.ID, err)
	}
	if n == 1 {
		return nil
	}
	found, err := tx.QueryRow("SELECT 1 FROM devices WHERE id = ?1", func(*Row) error { return nil }, d.ID)
	if err != nil {
		return fmt.Errorf("changing device %s: %w", d.ID, err)
	}
	if !found {
		return reason.Errorf(reason.NotFound, "device %s not found", d.ID)
	}
	return fmt.Errorf("device %s, version %d: %w", d.ID, d.Version, identity.ErrConflict)
}

// Passkeys returns all passkeys, including removed ones.
func (s IdentityStore) Passkeys(ctx context.Context) ([]passkey.Passkey, error) {
	return list(ctx, s.db, "reading passkeys", func(r *Row) (p passkey.Passkey, err error) {
		if err = json.Unmarshal(r.Bytes(0), &p); err != nil {
			err = fmt.Errorf("a passkey of %s: %w", r.Text(1), err)
		}
		return p, err
	}, "SELECT passkey, member FROM passkeys ORDER BY id")
}

// KeepPasskey stores a passkey with its events. It never changes the owner of a passkey.
func (s IdentityStore) KeepPasskey(ctx context.Context, p passkey.Passkey, events ...event.Draft) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("keeping a passkey of %s: %w", p.Member, err)
	}
	_, err = s.db.Commit(ctx, Unit{Events: events, Check: func(tx *Tx) error {
		if p.Version == 1 {
			return insertPasskey(tx, p, string(text))
		}
		n, err := tx.Exec("UPDATE passkeys SET passkey = ?3, version = ?4 WHERE id = ?1 AND member = ?2 AND version = ?4 - 1", p.ID, p.Member.String(), string(text), p.Version)
		if err != nil {
			return fmt.Errorf("keeping a passkey of %s: %w", p.Member, err)
		}
		if n != 1 {
			return fmt.Errorf("passkey %s, version %d: %w", passkey.Text(p.ID), p.Version, identity.ErrConflict)
		}
		return nil
	}})
	return err
}

func insertPasskey(tx *Tx, p passkey.Passkey, text string) error {
	n, err := tx.Exec("INSERT INTO passkeys (id, member, passkey, version) VALUES (?1, ?2, ?3, 1) ON CONFLICT DO NOTHING", p.ID, p.Member.String(), text)
	if err != nil {
		return fmt.Errorf("keeping a passkey of %s: %w", p.Member, err)
	}
	if n == 0 {
		return reason.Errorf(reason.AlreadyExists, "the passkey %s was enrolled already", passkey.Text(p.ID))
	}
	return nil
}
