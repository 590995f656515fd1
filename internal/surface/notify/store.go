package notify

import (
	"context"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
)

// State is what became of a delivery.
type State string

// The states. Queued becomes one of the others.
const (
	Queued    State = "queued"
	Delivered State = "delivered"
	// Failed is that there is no other try.
	Failed State = "failed"
	// Superseded is that the question was answered before it could be asked there.
	Superseded State = "superseded"
	// Dropped is that the target was behind by too much.
	Dropped State = "dropped"
)

// States lists all.
var States = []State{Queued, Delivered, Failed, Superseded, Dropped}

// Delivery is one notice for one target.
type Delivery struct {
	// Position orders deliveries as they were queued.
	Position int64
	// ID is a ULID, and what a receiver knows the delivery by.
	ID     string
	Target string
	// Seq is of the event that is told, 0 for a test.
	Seq      int64
	Kind     Kind
	Severity string
	// Approval is the one it is about, "" for none.
	Approval string
	State    State
	Attempts int
	QueuedAt time.Time
	// NextAt is when a queued one is tried, EndedAt when it became what it is.
	NextAt  time.Time
	EndedAt time.Time
	// Problem is what the last try failed of.
	Problem string
	// Ref names the message where it was delivered.
	Ref string
}

// Filter chooses deliveries. An empty field chooses all.
type Filter struct {
	Target string
	States []State
	// Size is at most 500; Before is the position that they come before, 0 for the newest.
	Size   int
	Before int64
}

// ChatUser says which member a user of a chat is.
type ChatUser struct {
	// ID is a ULID, which stands in votes where the device does.
	ID string
	// Team and User are Slack's own ids, which never change.
	Team, User string
	Member     access.Principal
	By         access.Principal
	At         time.Time
	// ConsentedAt is when the member agreed; zero for a user who does not vote yet.
	ConsentedAt time.Time
}

// Votes reports whether votes of the user count as the member's.
func (c ChatUser) Votes() bool { return !c.ConsentedAt.IsZero() }

// Store keeps deliveries and chat users.
type Store interface {
	// NotifyCursor is the last event whose deliveries were queued, 0 for none.
	NotifyCursor(ctx context.Context) (int64, error)
	// QueueDeliveries keeps deliveries, and the cursor with them. One of an event and
	// target that is there already is left as it is.
	QueueDeliveries(ctx context.Context, cursor int64, list []Delivery, events []event.Draft) error
	// ForgetCursor is for a gateway without targets: what happens meanwhile is told to none.
	ForgetCursor(ctx context.Context) error
	// NextDelivery is the queued one of a target that is due first.
	NextDelivery(ctx context.Context, target string) (d Delivery, found bool, err error)
	// QueuedDeliveries counts those of each target.
	QueuedDeliveries(ctx context.Context) (map[string]int, error)
	// PutDelivery keeps what became of one, with its events. One that is not queued any more
	// is not superseded: nothing is kept then.
	PutDelivery(ctx context.Context, d Delivery, events ...event.Draft) error
	// Deliveries returns a page, newest first.
	Deliveries(ctx context.Context, f Filter) ([]Delivery, error)
	// AskedDelivery is the one that asked about an approval at a target.
	AskedDelivery(ctx context.Context, target, approval string) (d Delivery, found bool, err error)
	// PruneDeliveries forgets those that ended before a time.
	PruneDeliveries(ctx context.Context, before time.Time) error

	ChatUsers(ctx context.Context) ([]ChatUser, error)
	// PutChatUser maps a user, in the place of who was mapped before.
	PutChatUser(ctx context.Context, u ChatUser, e event.Draft) error
	DropChatUser(ctx context.Context, id string, e event.Draft) error
}
