package notify

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Include says how much of a call a target is told.
type Include string

// How much is told.
const (
	// IncludeNone has what the gateway says: tool, severity, who asks, digest, expiry.
	IncludeNone Include = "none"
	// IncludeSummary also has the sentence in which the call is described.
	IncludeSummary Include = "summary"
	// IncludeFull also has the arguments, without what is a secret or looks like one.
	IncludeFull Include = "full"
)

// The types of targets.
const (
	Webhook = "webhook"
	Slack   = "slack"
	Email   = "email"
)

// Target is where notices go, and which.
type Target struct {
	Name, Type string
	// Events are the kinds that it wants; none is all.
	Events      []Kind
	MinSeverity string
	Include     Include
	// Where is the address in one line, without anything secret.
	Where  string
	Sender Sender
}

// wants reports whether the target is told of a kind and severity.
func (t Target) wants(k Kind, severity string) bool {
	if k == Tested {
		return true
	}
	return (len(t.Events) == 0 || slices.Contains(t.Events, k)) && AtLeast(severity, t.MinSeverity)
}

// Message is a notice on its way to a target.
type Message struct {
	// ID is that of the delivery. It is the same at each try.
	ID      string
	Notice  Notice
	Include Include
	// Ref is what Send returned for the message that asked about this approval; "" when
	// there was none.
	Ref string
}

// Sender brings messages to one place.
type Sender interface {
	// Send returns when the message has arrived. ref names it there, for those who can
	// change it later.
	Send(ctx context.Context, m Message) (ref string, err error)
}

// Changer is a Sender that changes the message which asked about an approval once that is
// answered, whatever kinds its target wants.
type Changer interface {
	Sender
	Changes() bool
}

// Runner is a Sender that also listens.
type Runner interface {
	Run(ctx context.Context) error
	// Status says in a word or a sentence how it is connected.
	Status() string
}

func changes(s Sender) bool {
	c, is := s.(Changer)
	return is && c.Changes()
}

// failure is an error that says whether and when to try again.
type failure struct {
	error
	forGood bool
	after   time.Duration
}

// ForGood marks an error after which there is no other try.
func ForGood(err error) error { return failure{error: err, forGood: true} }

// Later marks an error after which there is no other try for a while.
func Later(err error, d time.Duration) error { return failure{error: err, after: d} }

func (f failure) Unwrap() error { return f.error }

// again says when a delivery that failed is tried the next time: never, or after so long
// at the least.
func again(err error) (never bool, least time.Duration) {
	var f failure
	if errors.As(err, &f) {
		return f.forGood, min(f.after, longestPause)
	}
	return false, 0
}

// pauses are those between the tries of a delivery. Questions are answered in minutes, so
// that the first come soon; the last try is ten hours after the first.
var pauses = []time.Duration{
	5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour,
}

// longestPause bounds what a receiver can ask for.
const longestPause = 6 * time.Hour
