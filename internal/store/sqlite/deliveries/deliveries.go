// Package deliveries stores pending notifications and chat identities in the embedded store.
package deliveries

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/store/sqlite"
	"palyra/internal/surface/notify"
)

// Store is a notify.Store.
type Store struct{ db *sqlite.DB }

var _ notify.Store = Store{}

// New returns the store of notifications in a database.
func New(db *sqlite.DB) Store { return Store{db} }

// NotifyCursor implements notify.Store.
func (s Store) NotifyCursor(ctx context.Context) (seq int64, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		_, err := c.QueryRow("SELECT seq FROM notify_cursor", func(r *sqlite.Row) error {
			seq = r.Int64(0)
			return nil
		})
		return err
	})
	return seq, wrap("reading how far notifications are", err)
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// ForgetCursor implements notify.Store.
func (s Store) ForgetCursor(ctx context.Context) error {
	if seq, err := s.NotifyCursor(ctx); err != nil || seq == 0 {
		return err
	}
	return s.commit(ctx, nil, func(tx *sqlite.Tx) error {
		_, err := tx.Exec("DELETE FROM notify_cursor")
		return err
	})
}

func (s Store) commit(ctx context.Context, events []event.Draft, check func(*sqlite.Tx) error) error {
	_, err := s.db.Commit(ctx, sqlite.Unit{Events: events, Check: check})
	return err
}

const (
	columns = "id, target, seq, kind, severity, approval, state, attempts, queued_at, next_at, ended_at, problem, ref"
	values  = "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13"
)

func arguments(d notify.Delivery) []any {
	return []any{
		d.ID, d.Target, d.Seq, string(d.Kind), d.Severity, d.Approval, string(d.State), d.Attempts, d.QueuedAt, d.NextAt, d.EndedAt, d.Problem, d.Ref,
	}
}

func scan(r *sqlite.Row) notify.Delivery {
	return notify.Delivery{
		Position: r.Int64(0), ID: r.Text(1), Target: r.Text(2), Seq: r.Int64(3), Kind: notify.Kind(r.Text(4)), Severity: r.Text(5), Approval: r.Text(6),
		State: notify.State(r.Text(7)), Attempts: r.Int(8), QueuedAt: r.Time(9), NextAt: r.Time(10), EndedAt: r.Time(11), Problem: r.Text(12), Ref: r.Text(13),
	}
}

// QueueDeliveries implements notify.Store.
func (s Store) QueueDeliveries(ctx context.Context, cursor int64, list []notify.Delivery, events []event.Draft) error {
	return s.commit(ctx, events, func(tx *sqlite.Tx) error {
		for _, d := range list {
			if _, err := tx.Exec("INSERT OR IGNORE INTO deliveries ("+columns+") VALUES ("+values+")", arguments(d)...); err != nil {
				return wrap("queueing a notification", err)
			}
		}
		_, err := tx.Exec("INSERT INTO notify_cursor (one, seq) VALUES (1, ?1) ON CONFLICT DO UPDATE SET seq = ?1", cursor)
		return wrap("keeping how far notifications are", err)
	})
}

func (s Store) one(ctx context.Context, where string, args ...any) (d notify.Delivery, found bool, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		found, err = c.QueryRow("SELECT position, "+columns+" FROM deliveries WHERE "+where, func(r *sqlite.Row) error {
			d = scan(r)
			return nil
		}, args...)
		return err
	})
	return d, found, wrap("reading notifications", err)
}

// NextDelivery implements notify.Store.
func (s Store) NextDelivery(ctx context.Context, target string) (notify.Delivery, bool, error) {
	return s.one(ctx, "target = ?1 AND state = 'queued' ORDER BY next_at, position LIMIT 1", target)
}

// AskedDelivery implements notify.Store.
func (s Store) AskedDelivery(ctx context.Context, target, approval string) (notify.Delivery, bool, error) {
	return s.one(ctx, "target = ?1 AND approval = ?2 AND kind = 'approval_asked' LIMIT 1", target, approval)
}

// QueuedDeliveries implements notify.Store.
func (s Store) QueuedDeliveries(ctx context.Context) (map[string]int, error) {
	counts := map[string]int{}
	err := s.db.Read(ctx, func(c *sqlite.Conn) error {
		return c.Query("SELECT target, count(*) FROM deliveries WHERE state = 'queued' GROUP BY target", func(r *sqlite.Row) error {
			counts[r.Text(0)] = r.Int(1)
			return nil
		})
	})
	return counts, wrap("counting notifications", err)
}

// PutDelivery implements notify.Store.
func (s Store) PutDelivery(ctx context.Context, d notify.Delivery, events ...event.Draft) error {
	err := s.commit(ctx, events, func(tx *sqlite.Tx) error {
		n, err := tx.Exec("INSERT INTO deliveries ("+columns+") VALUES ("+values+") ON CONFLICT (id) DO UPDATE SET state = ?7, attempts = ?8, next_at = ?10, ended_at = ?11, problem = ?12, ref = ?13 WHERE state = 'queued' OR ?7 <> 'superseded'", arguments(d)...)
		if err == nil && n == 0 {
			err = errEnded
		}
		return wrap("keeping what became of a notification", err)
	})
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// errEnded prevents a delivery that has ended from being superseded.
var errEnded = errors.New("the delivery is not queued any more")

// Deliveries implements notify.Store.
func (s Store) Deliveries(ctx context.Context, f notify.Filter) (list []notify.Delivery, err error) {
	where, args := []string{"1"}, []any{}
	if f.Target != "" {
		where, args = append(where, "target = ?"), append(args, f.Target)
	}
	if len(f.States) > 0 {
		where = append(where, "state IN (?"+strings.Repeat(", ?", len(f.States)-1)+")")
		for _, state := range f.States {
			args = append(args, string(state))
		}
	}
	if f.Before > 0 {
		where, args = append(where, "position < ?"), append(args, f.Before)
	}
	query := fmt.Sprintf("SELECT position, %s FROM deliveries WHERE %s ORDER BY position DESC LIMIT %d", columns, strings.Join(where, " AND "), f.Size)
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		return c.Query(query, func(r *sqlite.Row) error {
			list = append(list, scan(r))
			return nil
		}, args...)
	})
	return list, wrap("listing notifications", err)
}

// PruneDeliveries implements notify.Store.
func (s Store) PruneDeliveries(ctx context.Context, before time.Time) error {
	if _, found, err := s.one(ctx, "ended_at < ?1 LIMIT 1", before); err != nil || !found {
		return err
	}
	return s.commit(ctx, nil, func(tx *sqlite.Tx) error {
		_, err := tx.Exec("DELETE FROM deliveries WHERE ended_at < ?1", before)
		return wrap("forgetting old notifications", err)
	})
}

// ChatUsers implements notify.Store.
func (s Store) ChatUsers(ctx context.Context) (list []notify.ChatUser, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		return c.Query("SELECT id, team, user, member, mapped_by, mapped_at, consented_at FROM chat_users ORDER BY team, user", func(r *sqlite.Row) error {
			u := notify.ChatUser{ID: r.Text(0), Team: r.Text(1), User: r.Text(2), At: r.Time(5), ConsentedAt: r.Time(6)}
			if err := u.Member.UnmarshalText(r.Bytes(3)); err != nil {
				return err
			}
			list = append(list, u)
			return list[len(list)-1].By.UnmarshalText(r.Bytes(4))
		})
	})
	return list, wrap("reading the users of chats", err)
}

// PutChatUser implements notify.Store.
func (s Store) PutChatUser(ctx context.Context, u notify.ChatUser, e event.Draft) error {
	return s.commit(ctx, []event.Draft{e}, func(tx *sqlite.Tx) error {
		if _, err := tx.Exec("DELETE FROM chat_users WHERE team = ?1 AND user = ?2", u.Team, u.User); err != nil {
			return wrap("mapping a user of a chat", err)
		}
		_, err := tx.Exec("INSERT INTO chat_users (id, team, user, member, mapped_by, mapped_at, consented_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
			u.ID, u.Team, u.User, u.Member.String(), u.By.String(), u.At, u.ConsentedAt)
		return wrap("mapping a user of a chat", err)
	})
}

// DropChatUser implements notify.Store.
func (s Store) DropChatUser(ctx context.Context, id string, e event.Draft) error {
	return s.commit(ctx, []event.Draft{e}, func(tx *sqlite.Tx) error {
		n, err := tx.Exec("DELETE FROM chat_users WHERE id = ?1", id)
		if err == nil && n == 0 {
			return reason.Errorf(reason.NotFound, "chat user not found")
		}
		return wrap("forgetting a user of a chat", err)
	})
}
