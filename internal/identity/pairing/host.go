package pairing

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/pairing/spake2plus"
)

const (
	// mostCodes limits the open codes, mostOfOne the codes of one creator. Together with
	// MostGuesses they limit all memory that strangers can make the host use.
	mostCodes, mostOfOne = 64, 8
	// answerWithin is the candidate's time limit for its confirmation.
	answerWithin = 30 * time.Second
	// collectWithin is how long a certificate waits for the candidate after the request for
	// approval. It is also how long a created device may collect the certificate again.
	collectWithin = time.Hour
)

// wrongGuesses defines when an address is locked out. The fifth wrong guess ends the code in
// any case.
var wrongGuesses = limit.Backoff{Free: 3, First: 5 * time.Second, Longest: 15 * time.Minute, Forget: time.Hour}

// Issuer adds devices to members. identity.Pairings implements it.
type Issuer interface {
	// MayPair returns the error with which Pair would refuse the pairing.
	MayPair(p identity.Pairing) error
	// Pair durably adds the device.
	Pair(ctx context.Context, p identity.Pairing) (identity.Admission, error)
	// PairAgain issues another certificate for the key of a device that was paired at most within
	// ago. The key is "sha256:" and the digest.
	PairAgain(ctx context.Context, key string, request []byte, within time.Duration) (identity.Device, ca.Issued, error)
}

// Approvals requests approvals.
type Approvals interface {
	// Ask requests approval of the certificate for a code's candidate, and waits for the answer; an
	// error is a refusal. asked receives the approval's id once it can be answered. When ctx ends,
	// the request is withdrawn.
	Ask(ctx context.Context, c Code, asked func(approvalID string)) (Consent, error)
}

// Consent is the approval by people that a device gets its certificate.
type Consent interface {
	// By are the approvers.
	By() []access.Principal
	// Use consumes the approval, immediately before the device is created. It returns an error if
	// the approvers no longer have permission.
	Use(ctx context.Context, extra ...event.Draft) error
}

// Journal records the events of codes.
type Journal interface {
	Record(ctx context.Context, code event.Code, actor, subject string, payload any) error
}

// Server is the gateway's data for candidates.
type Server struct {
	// CA is the root certificate in DER. Name and Key are the name and the KeySHA256 of the
	// certificate that the gateway's listener presents.
	CA   []byte
	Name string
	Key  []byte
}

// Config holds the dependencies of a Host. All fields are required.
type Config struct {
	Issuer    Issuer
	Approvals Approvals
	Journal   Journal
	Server    func() (Server, error)
}

// Host is the gateway's side. It is safe for concurrent use.
type Host struct {
	cfg     Config
	lockout *limit.Lockout
	tries   *tries

	mu       sync.Mutex
	codes    map[string]*code
	attempts map[string]*attempt

	// asking passes questions to Run, which waits for their answers.
	asking chan question
}

// code is a Code with the host's private state.
type code struct {
	Code
	record *spake2plus.Record
	salt   []byte
	// guessed is the time of the last guess.
	guessed time.Time
	// withdraw withdraws the request for approval. It is nil before the request is made.
	withdraw context.CancelFunc
	// answered is closed when people have approved or denied.
	answered chan struct{}
	yes      Consent
	no       error
	// issuing serializes the creation of certificates. chain is the created certificate.
	issuing sync.Mutex
	chain   string
}

// NewHost returns a host without codes.
func NewHost(cfg Config) (*Host, error) {
	if cfg.Issuer == nil || cfg.Approvals == nil || cfg.Journal == nil || cfg.Server == nil {
		return nil, errors.New("making the host of pairings: issuer, approvals, journal and server are required")
	}
	lockout, err := limit.NewLockout(wrongGuesses)
	if err != nil {
		return nil, err
	}
	return &Host{
		cfg: cfg, lockout: lockout, tries: &tries{journal: cfg.Journal, counts: map[tried]*triedTimes{}},
		codes: map[string]*code{}, attempts: map[string]*attempt{}, asking: make(chan question),
	}, nil
}

// Create creates a code. The secret is only in the result.
func (h *Host) Create(ctx context.Context, r Request) (Made, error) {
	if err := r.check(); err != nil {
		return Made{}, err
	}
	if err := h.cfg.Issuer.MayPair(r.For); err != nil {
		return Made{}, err
	}
	c, secret, err := newCode(r)
	if err != nil {
		return Made{}, err
	}
	h.forget(ctx)
	if err := h.room(r.For.MadeBy); err != nil {
		return Made{}, err
	}
	if err := h.cfg.Journal.Record(ctx, event.PairingOpened, r.For.MadeBy.String(), c.ID, opened{
		Kind: r.Kind, DeviceID: c.For.DeviceID, Member: c.For.Member, New: c.For.New, Roles: c.For.Roles, Owner: c.For.Owner, ExpiresAt: c.ExpiresAt,
	}); err != nil {
		return Made{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.codes[c.ID] = c
	return Made{Code: c.Code, Secret: secret}, nil
}

// newCode generates a code, and immediately converts its secret to the host's record.
func newCode(r Request) (*code, string, error) {
	secret, err := newSecret(r.Kind)
	if err != nil {
		return nil, "", err
	}
	salt, err := spake2plus.NewSalt()
	if err != nil {
		return nil, "", err
	}
	derived, err := spake2plus.Derive([]byte(secret), salt, identities)
	if err != nil {
		return nil, "", err
	}
	record, err := derived.Record()
	if err != nil {
		return nil, "", err
	}
	id, err := newID()
	if err != nil {
		return nil, "", err
	}
	now := time.Now().UTC()
	if r.For.DeviceID, err = identity.NewDeviceID(now); err != nil {
		return nil, "", err
	}
	r.For.Code = id
	return &code{
		Code:   Code{ID: id, Kind: r.Kind, For: r.For, CreatedAt: now, ExpiresAt: now.Add(r.TTL), State: Open},
		record: record, salt: salt, answered: make(chan struct{}),
	}, secret, nil
}

// room returns an error if a limit on the number of codes is reached.
func (h *Host) room(maker access.Principal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, mine := 0, 0
	for _, c := range h.codes {
		if c.State == Given {
			continue
		}
		if all++; c.For.MadeBy == maker {
			mine++
		}
	}
	if all < mostCodes && mine < mostOfOne {
		return nil
	}
	return reason.Errorf(reason.RateLimited, "%d pairings are under way, %d of them of %s", all, mine, maker).
		WithRemedy("End one with `palyra pairing list` and `palyra pairing cancel ID`, or wait until one expires.")
}

// List returns the codes that have not ended, oldest first: all codes, or the codes that a
// member created or for which it receives the device.
func (h *Host) List(ctx context.Context, of access.Principal, all bool) []Code {
	h.forget(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []Code
	for _, c := range h.codes {
		if all || c.hangsOn(of) {
			list = append(list, c.Code)
		}
	}
	slices.SortFunc(list, func(a, b Code) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	return list
}

// Cancel ends a code. A device that was already created remains. Unless all is set, the code
// must be one that List returns for the actor.
func (h *Host) Cancel(ctx context.Context, by access.Principal, all bool, id string) (Code, error) {
	h.forget(ctx)
	h.mu.Lock()
	c := h.codes[id]
	if c == nil || !all && !c.hangsOn(by) {
		h.mu.Unlock()
		return Code{}, reason.Errorf(reason.NotFound, "pairing %s not found", id).WithRemedy("See `palyra pairing list`.")
	}
	if c.State == Given {
		h.mu.Unlock()
		return Code{}, reason.Errorf(reason.InvalidInput, "the pairing %s is over: %s has its certificate", id, c.For.DeviceID).
			WithRemedy("Revoke the device: `palyra devices revoke %s`.", c.For.DeviceID)
	}
	h.drop(c)
	was := c.Code
	h.mu.Unlock()
	return was, recordEnd(ctx, h.cfg.Journal, by.String(), was, "cancelled")
}

// EndOf ends the codes that a member created or for which it receives the device, because the
// member lost permissions.
func (h *Host) EndOf(ctx context.Context, p access.Principal) {
	h.end(ctx, "member", func(c *code) bool { return c.hangsOn(p) && c.State != Given })
}

// forget ends expired codes.
func (h *Host) forget(ctx context.Context) {
	now := time.Now()
	h.end(ctx, "guesses", func(c *code) bool {
		return c.State == Open && c.Guesses >= MostGuesses && now.Sub(c.guessed) > answerWithin
	})
	h.end(ctx, "expired", func(c *code) bool { return now.After(c.until()) })
}

// until returns the time at which a code is removed. A used code remains longer, for the
// approval and for the candidate.
func (c *code) until() time.Time {
	if c.State == Open {
		return c.ExpiresAt
	}
	return c.ExpiresAt.Add(collectWithin)
}

func (h *Host) end(ctx context.Context, why string, over func(*code) bool) {
	var list []Code
	h.mu.Lock()
	for _, c := range h.codes {
		if over(c) {
			h.drop(c)
			if c.State != Given {
				list = append(list, c.Code)
			}
		}
	}
	for id, a := range h.attempts {
		if time.Since(a.at) > answerWithin {
			delete(h.attempts, id)
		}
	}
	h.mu.Unlock()
	for _, c := range list {
		// The code has ended even if the event cannot be recorded: it is no longer in memory.
		_ = recordEnd(context.WithoutCancel(ctx), h.cfg.Journal, identity.Daemon().String(), c, why)
	}
}

// drop deletes a code and its attempts. The caller holds h.mu.
func (h *Host) drop(c *code) {
	delete(h.codes, c.ID)
	if c.withdraw != nil {
		c.withdraw()
	}
	for id, a := range h.attempts {
		if a.code == c {
			delete(h.attempts, id)
		}
	}
}

// Run requests approvals, records attempts once a minute, and removes expired state, until ctx
// ends. It then withdraws the unanswered requests.
func (h *Host) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	var questions sync.WaitGroup
	defer questions.Wait()
	for {
		select {
		case <-ctx.Done():
			h.tries.record(context.WithoutCancel(ctx))
			return nil
		case q := <-h.asking:
			questions.Go(func() { h.wait(ctx, q) })
		case <-tick.C:
			h.forget(ctx)
			h.tries.record(ctx)
		}
	}
}

// Lockout returns the addresses that failed too often, for monitoring.
func (h *Host) Lockout() *limit.Lockout { return h.lockout }
