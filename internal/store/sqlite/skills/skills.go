// Package skills stores installed skills and their publishers in the embedded store.
package skills

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"palyra/internal/core/event"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/store/sqlite"
)

// Store is a registry.Store.
type Store struct{ db *sqlite.DB }

var _ registry.Store = Store{}

// New returns the store of skills in a database.
func New(db *sqlite.DB) Store { return Store{db} }

const (
	versionColumns   = "skill, version, publisher, key_id, digest, status, why, current, installed_by, installed_at, changed_by, changed_at"
	publisherColumns = "name, key_id, public_key, first_use, distrusted, changed_by, changed_at"
)

// Skills implements registry.Store.
func (s Store) Skills(ctx context.Context) (kept registry.Kept, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		err := c.Query("SELECT "+versionColumns+" FROM skills ORDER BY skill, version", func(r *sqlite.Row) error {
			i, err := scanVersion(r)
			kept.Versions = append(kept.Versions, i)
			return err
		})
		if err != nil {
			return err
		}
		return c.Query("SELECT "+publisherColumns+" FROM skill_publishers ORDER BY name", func(r *sqlite.Row) error {
			p := registry.Publisher{Name: r.Text(0), KeyID: r.Text(1), PublicKey: ed25519.PublicKey(r.Bytes(2)), FirstUse: r.Bool(3), Distrusted: r.Bool(4), At: r.Time(6)}
			err := p.By.UnmarshalText(r.Bytes(5))
			kept.Publishers = append(kept.Publishers, p)
			return err
		})
	})
	if err != nil {
		return kept, fmt.Errorf("reading the installed skills: %w", err)
	}
	return kept, nil
}

func scanVersion(r *sqlite.Row) (registry.Installed, error) {
	i := registry.Installed{
		Skill: r.Text(0), Version: r.Text(1), Publisher: r.Text(2), KeyID: r.Text(3), Digest: r.Text(4), Status: registry.Status(r.Text(5)), Why: r.Text(6), Current: r.Bool(7),
		InstalledAt: r.Time(9), ChangedAt: r.Time(11),
	}
	return i, errors.Join(i.InstalledBy.UnmarshalText(r.Bytes(8)), i.ChangedBy.UnmarshalText(r.Bytes(10)))
}

// ChangeSkills implements registry.Store.
func (s Store) ChangeSkills(ctx context.Context, change registry.Change) error {
	_, err := s.db.Commit(ctx, sqlite.Unit{Events: change.Events, Check: func(tx *sqlite.Tx) error {
		for _, i := range change.Drop {
			if _, err := tx.Exec("DELETE FROM skills WHERE skill = ?1 AND version = ?2", i.Skill, i.Version); err != nil {
				return fmt.Errorf("removing the skill %s: %w", i.Name(), err)
			}
		}
		for _, i := range change.Put {
			if _, err := tx.Exec("INSERT OR REPLACE INTO skills ("+versionColumns+") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
				i.Skill, i.Version, i.Publisher, i.KeyID, i.Digest, string(i.Status), i.Why, i.Current, i.InstalledBy.String(), i.InstalledAt, i.ChangedBy.String(), i.ChangedAt); err != nil {
				return fmt.Errorf("keeping the skill %s: %w", i.Name(), err)
			}
		}
		for _, name := range change.Forget {
			if _, err := tx.Exec("DELETE FROM skill_storage WHERE skill = ?1", name); err != nil {
				return fmt.Errorf("removing the data of skill %s: %w", name, err)
			}
		}
		for _, p := range change.Publishers {
			if _, err := tx.Exec("INSERT OR REPLACE INTO skill_publishers ("+publisherColumns+") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
				p.Name, p.KeyID, []byte(p.PublicKey), p.FirstUse, p.Distrusted, p.By.String(), p.At); err != nil {
				return fmt.Errorf("keeping the publisher %s: %w", p.Name, err)
			}
		}
		return nil
	}})
	return err
}

// LastSkillEvent implements registry.Store.
func (s Store) LastSkillEvent(ctx context.Context, subject string, codes ...event.Code) (e event.Draft, found bool, err error) {
	args := []any{subject}
	for _, code := range codes {
		args = append(args, string(code))
	}
	query := "SELECT code, actor, subject, payload FROM events WHERE subject = ? AND code IN (?" + strings.Repeat(", ?", len(codes)-1) + ") ORDER BY seq DESC LIMIT 1"
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		found, err = c.QueryRow(query, func(r *sqlite.Row) error {
			e = event.Draft{Code: event.Code(r.Text(0)), Actor: r.Text(1), Subject: r.Text(2), Payload: r.Bytes(3)}
			return nil
		}, args...)
		return err
	})
	if err != nil {
		return e, false, fmt.Errorf("reading the newest event of %s: %w", subject, err)
	}
	return e, found, nil
}
