package notify

import (
	"context"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
)

// State is the state of a delivery.
type State string

// The states of a delivery. Queued changes to one of the others, which are final.
const (
	Queued    State = "queued"
	Delivered State = "delivered"
	// Failed means that no further attempt follows.
	Failed State = "failed"
	// Superseded means that the question was answered before it was delivered.
	Superseded State = "superseded"
	// Dropped means that the queue of the target was full.
	Dropped State = "dropped"
)

// States lists all states.
var States = []State{Queued, Delivered, Failed, Superseded, Dropped}

// Delivery is the delivery of one notice to one target.
type Delivery struct {
	// Position is the order in which deliveries were queued.
	Position int64
	// ID is a ULID. The receiver gets it as the id of the delivery.
	ID     string
	Target string
	// Seq is the sequence number of the event, 0 for a test.
	Seq      int64
	Kind     Kind
	Severity string
	// Approval is the id of the approval, "" for other notices.
	Approval string
	State    State
	Attempts int
	QueuedAt time.Time
	// NextAt is the time of the next attempt of a queued delivery, and EndedAt the time of its
	// final state.
	NextAt  time.Time
	EndedAt time.Time
	// Problem is the error of the last attempt.
	Problem string
	// Ref identifies the delivered message at the receiver.
	Ref string
}

// Filter selects deliveries. An empty field selects all.
type Filter struct {
	Target string
	States []State
	// Size is the page size, at most 500. Before is an exclusive upper bound of the position, 0 for
	// the newest page.
	Size   int
	Before int64
}

// ChatUser maps a user of a chat to a member.
type ChatUser struct {
	// ID is a ULID. Votes have it as their device id.
	ID string
	// Team and User are Slack's ids, which never change.
	Team, User string
	Member     access.Principal
	By         access.Principal
	At         time.Time
	// ConsentedAt is the time of the member's consent; zero if the user may not vote yet.
	ConsentedAt time.Time
}

// Votes reports whether votes of the user count as votes of the member.
func (c ChatUser) Votes() bool { return !c.ConsentedAt.IsZero() }

// Store stores deliveries and chat users.
type Store interface {
	CursorStore
	DeliveryStore
	ChatUserStore
}

// CursorStore holds the position in the journal up to which deliveries were queued.
type CursorStore interface {
	// NotifyCursor returns the last event whose deliveries were queued, 0 for none.
	NotifyCursor(ctx context.Context) (int64, error)
	// QueueDeliveries stores deliveries together with the cursor. An existing delivery of the same
	// event and target is not changed.
	QueueDeliveries(ctx context.Context, cursor int64, list []Delivery, events []event.Draft) error
	// ForgetCursor resets the cursor of a gateway without targets. Events until a target is
	// configured are then not delivered.
	ForgetCursor(ctx context.Context) error
}

// DeliveryStore holds deliveries.
type DeliveryStore interface {
	// NextDelivery returns the queued delivery of a target that is due first.
	NextDelivery(ctx context.Context, target string) (d Delivery, found bool, err error)
	// QueuedDeliveries returns the number of queued deliveries of each target.
	QueuedDeliveries(ctx context.Context) (map[string]int, error)
	// PutDelivery stores the state of a delivery with its events. If the state is Superseded and
	// the stored delivery is no longer queued, it stores nothing.
	PutDelivery(ctx context.Context, d Delivery, events ...event.Draft) error
	// Deliveries returns a page, newest first.
	Deliveries(ctx context.Context, f Filter) ([]Delivery, error)
	// AskedDelivery returns the delivery of the question of an approval to a target.
	AskedDelivery(ctx context.Context, target, approval string) (d Delivery, found bool, err error)
	// PruneDeliveries deletes the deliveries that ended before a time.
	PruneDeliveries(ctx context.Context, before time.Time) error
}

// ChatUserStore maps chat users to members.
type ChatUserStore interface {
	ChatUsers(ctx context.Context) ([]ChatUser, error)
	// PutChatUser maps a user. It replaces an earlier mapping.
	PutChatUser(ctx context.Context, u ChatUser, e event.Draft) error
	DropChatUser(ctx context.Context, id string, e event.Draft) error
}
