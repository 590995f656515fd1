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

// Journal is read for what happens (journal.Log).
type Journal interface {
	Head() journal.Head
	Follow(ctx context.Context, after int64, fn func(journal.Event) error) error
	Get(ctx context.Context, seq int64) (journal.Event, error)
}

// Approvals are read for what is asked (approval.Desk).
type Approvals interface {
	Get(ctx context.Context, id string) (approval.Record, error)
}

// Config is what a Service stands on.
type Config struct {
	Store     Store
	Journal   Journal
	Approvals Approvals
	Targets   []Target
	// Link leads to an approval, "" to the gateway; nil for nowhere.
	Link func(approval string) string
	Now  func() time.Time
	Log  *slog.Logger
}

// Service tells targets what happens.
type Service struct {
	use Config
	// wake has one per target.
	wake map[string]chan struct{}

	mu sync.Mutex
	// last is how the last try at each target ended, "" for well.
	last map[string]string
}

const (
	// mostQueued bounds what one target is owed. What comes beyond is dropped, and said.
	mostQueued = 1000
	// mostAsked is how much of it approvals may take, which agents ask for, and mostOrdinary
	// all that is not critical, so that there is room for a freeze.
	mostAsked, mostOrdinary = 800, 950
	// tooOld is the age from which an event is news to nobody.
	tooOld = 24 * time.Hour
	// keepFor is how long deliveries that ended are listed.
	keepFor = 30 * 24 * time.Hour
	// patience bounds one try.
	patience = 20 * time.Second
	// mostProblem bounds what is kept of an error, in bytes.
	mostProblem = 300
	// storePause is how long a store that failed is left alone.
	storePause = 5 * time.Second
	// saveEvery is after how many events that nobody is told of the place is kept.
	saveEvery = 2000
)

// New returns a service. Nothing is sent before Run.
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

// Run tells targets until ctx ends. It returns nil but for a bug: what fails here stops
// nothing else.
func (s *Service) Run(ctx context.Context) error {
	if len(s.use.Targets) == 0 {
		return s.use.Store.ForgetCursor(ctx)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.keepOn(ctx, "what happens is not queued for notifications", s.follow) })
	for _, t := range s.use.Targets {
		group.Go(func() error { return s.serve(ctx, t) })
		if r, is := t.Sender.(Runner); is {
			group.Go(func() error { return r.Run(ctx) })
		}
	}
	return group.Wait()
}

// keepOn does something again until ctx ends, with a pause after each failure.
func (s *Service) keepOn(ctx context.Context, failing string, do func(context.Context) error) error {
	for {
		err := do(ctx)
		if ctx.Err() != nil || reason.Of(err) == reason.ShuttingDown {
			return nil //nolint:nilerr // the daemon ends, and so does this
		}
		s.use.Log.WarnContext(ctx, "notices wait", slog.String("problem", failing), slog.Any("error", err))
		if !pause(ctx, storePause, nil) {
			return nil
		}
	}
}

// pause waits, and ends early when something comes over wake; false when ctx ended.
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

// follow queues what happens for those who want to be told.
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
		list, err := s.owed(ctx, e)
		if err != nil || len(list) == 0 && e.Seq-saved < saveEvery {
			return err
		}
		saved = e.Seq
		return s.queue(ctx, e.Seq, list)
	})
}

// owed are the deliveries that an event makes. The end of a question takes the question out of
// the queue, but for webhooks, which are a record of all that happened.
func (s *Service) owed(ctx context.Context, e journal.Event) (list []Delivery, err error) {
	n, is := of(e)
	if now := s.use.Now(); !is || now.Sub(e.At) > tooOld {
		return nil, nil
	}
	if n.Severity == "" { // the answers do not say it again
		n.Severity = "high"
		if r, err := s.use.Approvals.Get(ctx, n.Subject); err == nil {
			n.Severity = r.Severity
		}
	}
	for _, t := range s.use.Targets {
		wants := t.wants(n.Kind, n.Severity)
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

// queue keeps deliveries, and drops those of targets that are too far behind.
func (s *Service) queue(ctx context.Context, cursor int64, list []Delivery) error {
	var events []event.Draft
	if len(list) > 0 {
		waiting, err := s.use.Store.QueuedDeliveries(ctx)
		if err != nil {
			return err
		}
		for i, d := range list {
			if waiting[d.Target] < room(d) {
				waiting[d.Target]++
				continue
			}
			d.State, d.EndedAt, d.Problem = Dropped, d.QueuedAt, fmt.Sprintf("%d others wait for this target", waiting[d.Target])
			list[i] = d
			draft, err := d.ended()
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
		s.stir(d.Target)
	}
	return nil
}

// room is how many may wait for a target before a delivery is dropped.
func room(d Delivery) int {
	switch {
	case d.Approval != "":
		return mostAsked
	case !AtLeast(d.Severity, "critical"):
		return mostOrdinary
	default:
		return mostQueued
	}
}

func (s *Service) stir(target string) {
	select {
	case s.wake[target] <- struct{}{}:
	default:
	}
}

// deliveryPayload is of event.Notified.
type deliveryPayload struct {
	Delivery string `json:"delivery_id"`
	Target   string `json:"target"`
	Kind     Kind   `json:"kind"`
	Severity string `json:"severity"`
	// Event is the sequence number of what was told.
	Event    int64  `json:"event,omitempty"`
	Approval string `json:"approval_id,omitempty"`
	State    State  `json:"state"`
	Attempts int    `json:"attempts"`
	Problem  string `json:"problem,omitempty"`
}

// ended journals what became of a delivery.
func (d Delivery) ended() (event.Draft, error) {
	return event.DraftOf(event.Notified, journal.Daemon, d.ID, deliveryPayload{
		Delivery: d.ID, Target: d.Target, Kind: d.Kind, Severity: d.Severity, Event: d.Seq, Approval: d.Approval, State: d.State, Attempts: d.Attempts, Problem: d.Problem,
	})
}

// serve brings a target what it is owed, one after the other.
func (s *Service) serve(ctx context.Context, t Target) error {
	for {
		wait, err := s.step(ctx, t)
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

// idle is how often a target that is owed nothing is looked at.
const idle = time.Hour

// step brings one delivery on its way, and says how long there is nothing to do.
func (s *Service) step(ctx context.Context, t Target) (time.Duration, error) {
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
	_, err = s.try(ctx, t, d)
	return 0, err
}

// try tries one delivery and keeps what came of it.
func (s *Service) try(ctx context.Context, t Target, d Delivery) (Delivery, error) {
	n, err := s.notice(ctx, d)
	if err != nil {
		return d, err
	}
	m := Message{ID: d.ID, Notice: n, Include: t.Include}
	idle := d.Kind == ApprovalAsked && late(t, n)
	if n.Closes() && changes(t.Sender) {
		if m.Ref, err = s.changed(ctx, t, d); err != nil {
			return d, err
		}
		idle = m.Ref == "" && !t.wants(d.Kind, d.Severity)
	}
	if idle {
		d.State, d.EndedAt = Superseded, s.now()
		return d, s.put(ctx, d)
	}
	return s.send(ctx, t, d, m)
}

// late reports whether a question comes too late for a target. A webhook is a record of
// all that happened; people are not asked what is answered.
func late(t Target, n Notice) bool {
	return t.Type != Webhook && (n.Approval == nil || n.Approval.State != approval.Pending)
}

// changed is the message that asked what is answered now. One that was not sent yet is
// not sent any more.
func (s *Service) changed(ctx context.Context, t Target, d Delivery) (ref string, err error) {
	asked, found, err := s.use.Store.AskedDelivery(ctx, t.Name, d.Approval)
	if err != nil || !found || asked.State != Queued {
		return asked.Ref, err
	}
	asked.State, asked.EndedAt = Superseded, s.now()
	return "", s.put(ctx, asked)
}

// send sends a message and keeps what came of it.
func (s *Service) send(ctx context.Context, t Target, d Delivery, m Message) (Delivery, error) {
	try, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ref, err := t.Sender.Send(try, m)
	if ctx.Err() != nil && err != nil {
		return d, ctx.Err() // tried again after the start
	}
	d.Attempts++
	s.note(t.Name, err)
	if err == nil {
		d.State, d.EndedAt, d.Ref, d.Problem = Delivered, s.now(), ref, ""
		return d, s.put(ctx, d)
	}
	d.Problem = problem(err)
	never, least := again(err)
	if never || d.Attempts > len(pauses) || d.Kind == Tested {
		d.State, d.EndedAt = Failed, s.now()
		return d, s.put(ctx, d)
	}
	d.NextAt = s.now().Add(max(least, pauses[d.Attempts-1]))
	return d, s.use.Store.PutDelivery(ctx, d)
}

func (s *Service) now() time.Time { return s.use.Now().UTC().Truncate(time.Microsecond) }

// problem is an error in a line. What a receiver said may be in it.
func problem(err error) string { return text.Ellipsis(plain(err.Error()), mostProblem) }

func (s *Service) put(ctx context.Context, d Delivery) error {
	draft, err := d.ended()
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

// notice is what a delivery tells, with the approval as it is now.
func (s *Service) notice(ctx context.Context, d Delivery) (Notice, error) {
	n := Notice{Kind: d.Kind, At: d.QueuedAt, Severity: d.Severity, Text: "This is a test of the notifications of palyrad."}
	if d.Seq > 0 {
		e, err := s.use.Journal.Get(ctx, d.Seq)
		if err != nil {
			return n, err
		}
		var is bool
		if n, is = of(e); !is {
			n = Notice{Kind: d.Kind, Seq: d.Seq, At: e.At, Subject: e.Subject, Actor: e.Actor, Text: "What happened was erased."}
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

// TargetStatus is a target with how it is.
type TargetStatus struct {
	Target
	Queued int
	// Problem is what the last try failed of, "" for nothing.
	Problem string
	// Connection is that of a target which also listens.
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

// Test sends a notice to a target at once, and returns what became of it. Its failure is
// in the delivery.
func (s *Service) Test(ctx context.Context, target string) (Delivery, error) {
	i := slices.IndexFunc(s.use.Targets, func(t Target) bool { return t.Name == target })
	if i < 0 {
		return Delivery{}, reason.Errorf(reason.NotFound, "there is no notification target %q", target).
			WithRemedy("`palyra notify list` shows them; [[notify]] in palyra.toml declares them.")
	}
	t := s.use.Targets[i]
	d := s.delivery(t, Notice{Kind: Tested, Severity: "low"})
	d.State = Delivered // until it has failed; it is never in the queue
	return s.try(ctx, t, d)
}

// Notices are sentences about targets that cannot be reached.
func (s *Service) Notices() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, t := range s.use.Targets {
		if problem := s.last[t.Name]; problem != "" {
			list = append(list, fmt.Sprintf("notifications do not arrive at %s: %s; `palyra notify deliveries` says more", t.Name, problem))
		}
	}
	return list
}
