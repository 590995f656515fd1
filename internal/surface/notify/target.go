package notify

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Include is the level of detail with which a target receives a call.
type Include string

// The levels of detail.
const (
	// IncludeNone includes only facts of the gateway: tool, severity, requester, digest, expiry.
	IncludeNone Include = "none"
	// IncludeSummary also includes the description of the call.
	IncludeSummary Include = "summary"
	// IncludeFull also includes the arguments. Secrets, and values that look like secrets, are
	// redacted.
	IncludeFull Include = "full"
)

// The types of targets.
const (
	Webhook = "webhook"
	Slack   = "slack"
	Email   = "email"
)

// Target is a receiver of notices, with a filter.
type Target struct {
	Name, Type string
	// Events are the kinds that the target receives; empty means all.
	Events      []Kind
	MinSeverity string
	Include     Include
	// Where is the address as one line, without secrets.
	Where  string
	Sender Sender
}

// accepts reports whether the target receives notices of a kind and severity.
func (t Target) accepts(k Kind, severity string) bool {
	if k == Tested {
		return true
	}
	return (len(t.Events) == 0 || slices.Contains(t.Events, k)) && AtLeast(severity, t.MinSeverity)
}

// Message is a notice for a target.
type Message struct {
	// ID is the id of the delivery. It is the same for each attempt.
	ID      string
	Notice  Notice
	Include Include
	// Ref is the result of Send for the message with the question of this approval, "" if it was
	// not sent.
	Ref string
}

// Sender sends messages to one receiver.
type Sender interface {
	// Send returns when the message has arrived. ref identifies the message, for senders that can
	// change it later.
	Send(ctx context.Context, m Message) (ref string, err error)
}

// Changer is a Sender that updates the message with a question once the question is answered,
// independent of the kinds that its target selects.
type Changer interface {
	Sender
	Changes() bool
}

// Runner is a Sender that also receives.
type Runner interface {
	Run(ctx context.Context) error
	// Status returns the state of the connection as text.
	Status() string
}

func changes(s Sender) bool {
	c, is := s.(Changer)
	return is && c.Changes()
}

// failure is an error that controls further attempts.
type failure struct {
	error
	permanent bool
	after     time.Duration
}

// Permanent marks an error after which no further attempt is made.
func Permanent(err error) error { return failure{error: err, permanent: true} }

// RetryAfter marks an error after which the next attempt waits for at least d.
func RetryAfter(err error, d time.Duration) error { return failure{error: err, after: d} }

func (f failure) Unwrap() error { return f.error }

// nextAttempt returns when a failed delivery is attempted again: never, or after at least a
// duration.
func nextAttempt(err error) (never bool, least time.Duration) {
	var f failure
	if errors.As(err, &f) {
		return f.permanent, min(f.after, longestPause)
	}
	return false, 0
}

// retryWaits are the waits between attempts of a delivery. The first are short, because questions
// are answered within minutes. The last attempt is about ten hours after the first.
var retryWaits = []time.Duration{
	5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour,
}

// longestPause is the longest wait that a receiver can request.
const longestPause = 6 * time.Hour
