package notify

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"

	"palyra/internal/call/approval"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/evidence/journal"
)

// Journal returns events (journal.Log).
type Journal interface {
	Head() journal.Head
	Follow(ctx context.Context, after int64, fn func(journal.Event) error) error
	Get(ctx context.Context, seq int64) (journal.Event, error)
}

// Approvals returns approvals (approval.Records).
type Approvals interface {
	Get(ctx context.Context, id string) (approval.Record, error)
}

// Config is the configuration of a Service.
type Config struct {
	Store     Store
	Journal   Journal
	Approvals Approvals
	Targets   []Target
	// Link returns the URL of an approval, or of the gateway for "". nil disables links.
	Link func(approval string) string
	Now  func() time.Time
	Log  *slog.Logger
}

// Service delivers notices to targets.
type Service struct {
	use Config
	// wake has one channel for each target.
	wake map[string]chan struct{}

	mu sync.Mutex
	// last is the error of the last attempt at each target, "" after a success.
	last map[string]string
}

const (
	// mostQueued is the highest number of queued deliveries of a target. Further deliveries are
	// dropped, and the drop is recorded.
	mostQueued = 1000
	// mostAsked is the queue length from which notices of approvals are dropped, because their
	// number depends on agents. mostOrdinary is the queue length from which other deliveries below
	// critical are dropped, so that the notice of a freeze always has room.
	mostAsked, mostOrdinary = 800, 950
	// tooOld is the age from which an event is no longer delivered.
	tooOld = 24 * time.Hour
	// keepFor is how long ended deliveries remain in the store.
	keepFor = 30 * 24 * time.Hour
	// patience is the timeout of one attempt.
	patience = 20 * time.Second
	// mostProblem is the highest length of a stored error, in bytes.
	mostProblem = 300
	// storePause is the wait after a failure of the store.
	storePause = 5 * time.Second
	// saveEvery is the number of events without deliveries after which the cursor is stored.
	saveEvery = 2000
)

// New returns a service. It sends nothing before Run.
func New(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Service{use: c, wake: map[string]chan struct{}{}, last: map[string]string{}}
	for _, t := range c.Targets {
		s.wake[t.Name] = make(chan struct{}, 1)
	}
	return s
}

// Run delivers notices until ctx ends. It returns nil unless the program has a bug, so that a
// delivery failure does not stop the daemon.
func (s *Service) Run(ctx context.Context) error {
	if len(s.use.Targets) == 0 {
		return s.use.Store.ForgetCursor(ctx)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.repeat(ctx, "events are not queued for notifications", s.follow) })
	for _, t := range s.use.Targets {
		group.Go(func() error { return s.deliverAll(ctx, t) })
		if r, is := t.Sender.(Runner); is {
			group.Go(func() error { return r.Run(ctx) })
		}
	}
	return group.Wait()
}

// repeat repeats a function until ctx ends, with a pause after each failure.
func (s *Service) repeat(ctx context.Context, failing string, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if ctx.Err() != nil || reason.Of(err) == reason.ShuttingDown {
			return nil //nolint:nilerr // the daemon ends, and so does this
		}
		s.use.Log.WarnContext(ctx, "notifications are delayed", slog.String("problem", failing), slog.Any("error", err))
		if !pause(ctx, storePause, nil) {
			return nil
		}
	}
}

// pause waits for d or until wake receives. It returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return true
}

// follow queues the deliveries of new events.
func (s *Service) follow(ctx context.Context) error {
	after, err := s.use.Store.NotifyCursor(ctx)
	if err != nil {
		return err
	}
	if head := s.use.Journal.Head().Seq; after == 0 || after > head {
		after = head
		if err := s.use.Store.QueueDeliveries(ctx, after, nil, nil); err != nil {
			return err
		}
	}
	saved := after
	return s.use.Journal.Follow(ctx, after, func(e journal.Event) error {
		list, err := s.deliveriesOf(ctx, e)
		if err != nil || len(list) == 0 && e.Seq-saved < saveEvery {
			return err
		}
		saved = e.Seq
		return s.queue(ctx, e.Seq, list)
	})
}

// deliveriesOf returns the deliveries of an event. An event that closes an approval removes the
// approval's notice from the queue, except for webhooks, which receive every notice.
func (s *Service) deliveriesOf(ctx context.Context, e journal.Event) (list []Delivery, err error) {
	n, is := noticeOf(e)
	if now := s.use.Now(); !is || now.Sub(e.At) > tooOld {
		return nil, nil
	}
	if n.Severity == "" { // events of answers have no severity
		n.Severity = "high"
		if r, err := s.use.Approvals.Get(ctx, n.Subject); err == nil {
			n.Severity = r.Severity
		}
	}
	for _, t := range s.use.Targets {
		wants := t.accepts(n.Kind, n.Severity)
		if n.Closes() && t.Type != Webhook {
			asked, found, err := s.use.Store.AskedDelivery(ctx, t.Name, n.Subject)
			if err == nil && found && asked.State == Queued {
				asked.State, asked.EndedAt = Superseded, s.now()
				err = s.put(ctx, asked)
			}
			if err != nil {
				return nil, err
			}
			wants = wants || found && changes(t.Sender)
		}
		if wants {
			list = append(list, s.delivery(t, n))
		}
	}
	return list, nil
}

func (s *Service) delivery(t Target, n Notice) Delivery {
	now := s.now()
	d := Delivery{
		ID: ulid.Make().String(), Target: t.Name, Seq: n.Seq, Kind: n.Kind, Severity: n.Severity, State: Queued, QueuedAt: now, NextAt: now,
	}
	if n.Kind == ApprovalAsked || n.Closes() {
		d.Approval = n.Subject
	}
	return d
}

// queue stores deliveries. It drops deliveries to targets whose queue is full.
func (s *Service) queue(ctx context.Context, cursor int64, list []Delivery) error {
	var events []event.Draft
	if len(list) > 0 {
		waiting, err := s.use.Store.QueuedDeliveries(ctx)
		if err != nil {
			return err
		}
		for i, d := range list {
			if waiting[d.Target] < queueLimit(d) {
				waiting[d.Target]++
				continue
			}
			d.State, d.EndedAt, d.Problem = Dropped, d.QueuedAt, fmt.Sprintf("the queue of this target is full (%d deliveries)", waiting[d.Target])
			list[i] = d
			draft, err := d.endEvent()
			if err != nil {
				return err
			}
			events = append(events, draft)
		}
	}
	if err := s.use.Store.QueueDeliveries(ctx, cursor, list, events); err != nil {
		return err
	}
	for _, d := range list {
		s.wakeTarget(d.Target)
	}
	return nil
}

// queueLimit returns the queue length from which a delivery is dropped.
func queueLimit(d Delivery) int {
	switch {
	case d.Approval != "":
		return mostAsked
	case !AtLeast(d.Severity, "critical"):
		return mostOrdinary
	default:
		return mostQueued
	}
}

func (s *Service) wakeTarget(target string) {
	select {
	case s.wake[target] <- struct{}{}:
	default:
	}
}

// deliveryPayload is the payload of event.Notified.
type deliveryPayload struct {
	Delivery string `json:"delivery_id"`
	Target   string `json:"target"`
	Kind     Kind   `json:"kind"`
	Severity string `json:"severity"`
	// Event is the sequence number of the event of the notice.
	Event    int64  `json:"event,omitempty"`
	Approval string `json:"approval_id,omitempty"`
	State    State  `json:"state"`
	Attempts int    `json:"attempts"`
	Problem  string `json:"problem,omitempty"`
}

// endEvent returns the event that records the end of a delivery.
func (d Delivery) endEvent() (event.Draft, error) {
	return event.DraftOf(event.Notified, journal.Daemon, d.ID, deliveryPayload{
		Delivery: d.ID, Target: d.Target, Kind: d.Kind, Severity: d.Severity, Event: d.Seq, Approval: d.Approval, State: d.State, Attempts: d.Attempts, Problem: d.Problem,
	})
}

// deliverAll sends the queued deliveries of a target one after the other.
func (s *Service) deliverAll(ctx context.Context, t Target) error {
	for {
		wait, err := s.deliverNext(ctx, t)
		if err != nil {
			wait = storePause
			if ctx.Err() == nil && reason.Of(err) != reason.ShuttingDown {
				s.use.Log.WarnContext(ctx, "notifications are not delivered", slog.String("note", t.Name), slog.Any("error", err))
			}
		}
		if !pause(ctx, wait, s.wake[t.Name]) {
			return nil
		}
	}
}

// idle is the interval of the checks of an empty queue.
const idle = time.Hour

// deliverNext attempts the next delivery, and returns how long to wait before the next step.
func (s *Service) deliverNext(ctx context.Context, t Target) (time.Duration, error) {
	d, found, err := s.use.Store.NextDelivery(ctx, t.Name)
	if err != nil {
		return 0, err
	}
	if !found {
		return idle, s.use.Store.PruneDeliveries(ctx, s.use.Now().Add(-keepFor))
	}
	if early := d.NextAt.Sub(s.use.Now()); early > 0 {
		return early, nil
	}
	_, err = s.attempt(ctx, t, d)
	return 0, err
}

// attempt attempts one delivery and stores the result.
func (s *Service) attempt(ctx context.Context, t Target, d Delivery) (Delivery, error) {
	n, err := s.notice(ctx, d)
	if err != nil {
		return d, err
	}
	m := Message{ID: d.ID, Notice: n, Include: t.Include}
	idle := d.Kind == ApprovalAsked && isAnswered(t, n)
	if n.Closes() && changes(t.Sender) {
		if m.Ref, err = s.askedRef(ctx, t, d); err != nil {
			return d, err
		}
		idle = m.Ref == "" && !t.accepts(d.Kind, d.Severity)
	}
	if idle {
		d.State, d.EndedAt = Superseded, s.now()
		return d, s.put(ctx, d)
	}
	return s.send(ctx, t, d, m)
}

// isAnswered reports whether an approval is no longer pending, so that its notice need not be
// delivered. It is always false for webhooks, which receive every notice.
func isAnswered(t Target, n Notice) bool {
	return t.Type != Webhook && (n.Approval == nil || n.Approval.State != approval.Pending)
}

// askedRef returns the reference of the message that asked for the now closed approval. If that
// message is still queued, askedRef supersedes it and returns "".
func (s *Service) askedRef(ctx context.Context, t Target, d Delivery) (ref string, err error) {
	asked, found, err := s.use.Store.AskedDelivery(ctx, t.Name, d.Approval)
	if err != nil || !found || asked.State != Queued {
		return asked.Ref, err
	}
	asked.State, asked.EndedAt = Superseded, s.now()
	return "", s.put(ctx, asked)
}

// send sends a message and stores the result.
func (s *Service) send(ctx context.Context, t Target, d Delivery, m Message) (Delivery, error) {
	try, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ref, err := t.Sender.Send(try, m)
	if ctx.Err() != nil && err != nil {
		return d, ctx.Err() // attempted again after the restart
	}
	d.Attempts++
	s.note(t.Name, err)
	if err == nil {
		d.State, d.EndedAt, d.Ref, d.Problem = Delivered, s.now(), ref, ""
		return d, s.put(ctx, d)
	}
	d.Problem = problem(err)
	never, least := nextAttempt(err)
	if never || d.Attempts > len(retryWaits) || d.Kind == Tested {
		d.State, d.EndedAt = Failed, s.now()
		return d, s.put(ctx, d)
	}
	d.NextAt = s.now().Add(max(least, retryWaits[d.Attempts-1]))
	return d, s.use.Store.PutDelivery(ctx, d)
}

func (s *Service) now() time.Time { return s.use.Now().UTC().Truncate(time.Microsecond) }

// problem returns an error as one line, because the error may contain text from the receiver.
func problem(err error) string { return text.Ellipsis(plain(err.Error()), mostProblem) }

func (s *Service) put(ctx context.Context, d Delivery) error {
	draft, err := d.endEvent()
	if err != nil {
		return err
	}
	return s.use.Store.PutDelivery(ctx, d, draft)
}

func (s *Service) note(target string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[target] = ""
	if err != nil {
		s.last[target] = problem(err)
	}
}

// notice returns the notice of a delivery, with the current record of the approval.
func (s *Service) notice(ctx context.Context, d Delivery) (Notice, error) {
	n := Notice{Kind: d.Kind, At: d.QueuedAt, Severity: d.Severity, Text: "This is a test notification of palyrad."}
	if d.Seq > 0 {
		e, err := s.use.Journal.Get(ctx, d.Seq)
		if err != nil {
			return n, err
		}
		var is bool
		if n, is = noticeOf(e); !is {
			n = Notice{Kind: d.Kind, Seq: d.Seq, At: e.At, Subject: e.Subject, Actor: e.Actor, Text: "The event was erased."}
		}
	}
	n.Severity = d.Severity
	if s.use.Link != nil {
		n.Link = s.use.Link(d.Approval)
	}
	if d.Approval != "" {
		r, err := s.use.Approvals.Get(ctx, d.Approval)
		if err != nil && reason.Of(err) != reason.NotFound {
			return n, err
		}
		if err == nil {
			n.Approval = &r
		}
	}
	return n, nil
}

// TargetStatus is a target with its state.
type TargetStatus struct {
	Target
	Queued int
	// Problem is the error of the last attempt, "" after a success.
	Problem string
	// Connection is the connection state of a target whose sender is a Runner.
	Connection string
}

// Targets lists the targets in the order of the configuration.
func (s *Service) Targets(ctx context.Context) ([]TargetStatus, error) {
	waiting, err := s.use.Store.QueuedDeliveries(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]TargetStatus, len(s.use.Targets))
	for i, t := range s.use.Targets {
		list[i] = TargetStatus{Target: t, Queued: waiting[t.Name], Problem: s.last[t.Name]}
		if r, is := t.Sender.(Runner); is {
			list[i].Connection = r.Status()
		}
	}
	return list, nil
}

// Deliveries returns a page, newest first.
func (s *Service) Deliveries(ctx context.Context, f Filter) ([]Delivery, error) {
	return s.use.Store.Deliveries(ctx, f)
}

// Test sends a test notice to a target immediately, and returns the delivery. A failure is recorded
// in the delivery.
func (s *Service) Test(ctx context.Context, target string) (Delivery, error) {
	i := slices.IndexFunc(s.use.Targets, func(t Target) bool { return t.Name == target })
	if i < 0 {
		return Delivery{}, reason.Errorf(reason.NotFound, "the notification target %q does not exist", target).
			WithRemedy("List the targets with `palyra notify list`; define them with [[notify]] in palyra.toml.")
	}
	t := s.use.Targets[i]
	d := s.delivery(t, Notice{Kind: Tested, Severity: "low"})
	d.State = Delivered // changed on failure; a test is never queued
	return s.attempt(ctx, t, d)
}

// Notices returns a message for each target that cannot be reached.
func (s *Service) Notices() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, t := range s.use.Targets {
		if problem := s.last[t.Name]; problem != "" {
			list = append(list, fmt.Sprintf("notifications to %s fail: %s; see `palyra notify deliveries`", t.Name, problem))
		}
	}
	return list
}
