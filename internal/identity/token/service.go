package token

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
)

// Bounds of tokens.
const (
	// DefaultLife is the default lifetime of a token.
	DefaultLife = 90 * 24 * time.Hour
	// MaxLife is the maximum lifetime, MinLife the minimum.
	MaxLife = 366 * 24 * time.Hour
	MinLife = time.Minute
	// MaxTokens limits the valid tokens of all members.
	MaxTokens = 10_000
	// maxAddresses is the maximum number of address ranges of one token.
	maxAddresses = 32
	// usedEvery is the precision of the time of the last use.
	usedEvery = time.Minute
)

var nameForm = lazyregexp.New(`^[a-zA-Z0-9][a-zA-Z0-9 ._-]{0,62}$`)

// Members are the gateway's members (access.Registry).
type Members interface {
	Active(p access.Principal) (access.Member, bool)
	Get(p access.Principal) (access.Member, bool)
}

// Config holds the dependencies of a Service. All fields except Now and Rand are required.
type Config struct {
	Store   Store
	Members Members
	// Revoked reports whether a device was revoked; nil means that no device is ever revoked. A
	// token ends with the device that created it, because a thief of the device could have created
	// tokens with it.
	Revoked func(device string) bool
	// Now is the clock; nil means time.Now. Rand generates ids and secrets; nil means crypto/rand.
	Now  func() time.Time
	Rand io.Reader
}

// Service creates, checks and revokes all tokens. It is safe for concurrent use.
type Service struct {
	store   Store
	members Members
	revoked func(device string) bool
	now     func() time.Time
	rand    io.Reader

	// changing serialises changes; mu guards the fields below.
	changing sync.Mutex
	mu       sync.RWMutex
	tokens   map[string]Token
	used     map[string]time.Time
	watchers []func(Token)
}

// New loads the tokens.
func New(ctx context.Context, c Config) (*Service, error) {
	if c.Store == nil || c.Members == nil {
		return nil, errors.New("making token service: store and members are required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Revoked == nil {
		c.Revoked = func(string) bool { return false }
	}
	list, err := c.Store.Tokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading tokens: %w", err)
	}
	s := &Service{
		store: c.Store, members: c.Members, revoked: c.Revoked, now: c.Now, rand: c.Rand, tokens: make(map[string]Token, len(list)), used: map[string]time.Time{},
	}
	for _, t := range list {
		s.tokens[t.ID] = t
	}
	return s, nil
}

// Request is a request for a token.
type Request struct {
	Name string
	// For is the member that the token acts as: the creator, or an agent that the creator owns.
	// The zero value means the creator.
	For access.Principal
	// Device is the device that the creator uses for the request.
	Device string
	Scopes []access.Permission
	// Addresses are the addresses from which the token may be used; an empty list permits all.
	Addresses []netip.Prefix
	// Life is the lifetime; 0 means DefaultLife.
	Life time.Duration
}

// Create creates a token. It returns the token's text, which cannot be read again. The caller MUST
// check that the creator, and the member that the token acts as, have the permissions of the
// scopes.
func (s *Service) Create(ctx context.Context, creator access.Principal, r Request) (Token, string, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	t, err := s.checked(creator, r)
	if err != nil {
		return Token{}, "", fmt.Errorf("making token: %w", err)
	}
	id, err := ulid.New(ulid.Timestamp(t.CreatedAt), s.rand)
	if err != nil {
		return Token{}, "", fmt.Errorf("making token: %w", err)
	}
	var secret [secretBytes]byte
	if _, err := io.ReadFull(s.rand, secret[:]); err != nil {
		return Token{}, "", fmt.Errorf("making token: %w", err)
	}
	t.ID, t.Digest = id.String(), sha256.Sum256(secret[:])
	e, err := event.DraftOf(event.TokenMade, creator.String(), t.ID, made{
		TokenID: t.ID, Name: t.Name, Principal: t.Principal, Scopes: t.Scopes, Addresses: t.Addresses, ExpiresAt: t.ExpiresAt,
	})
	if err == nil {
		e, err = e.By(access.DeviceOf(ctx))
	}
	if err != nil {
		return Token{}, "", err
	}
	if err := s.store.AddToken(context.WithoutCancel(ctx), t, e); err != nil {
		return Token{}, "", fmt.Errorf("making token: %w", err)
	}
	s.put(t)
	return t, text(t.ID, secret), nil
}

func (s *Service) put(t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[t.ID] = t
}

// checked returns the requested token, without its secret.
func (s *Service) checked(creator access.Principal, r Request) (Token, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	t := Token{
		Name: r.Name, Principal: r.For, CreatedBy: creator, Device: r.Device, Scopes: tidy(r.Scopes), Addresses: slices.Clone(r.Addresses), CreatedAt: now,
	}
	if t.Principal.IsZero() {
		t.Principal = creator
	}
	if r.Life == 0 {
		r.Life = DefaultLife
	}
	t.ExpiresAt = now.Add(r.Life)
	switch {
	case !nameForm.MatchString(t.Name):
		return t, reason.Errorf(reason.InvalidInput, "the name %q is not 1 to 63 letters, digits, spaces, '.', '_' or '-'", t.Name)
	case r.Life < MinLife || r.Life > MaxLife:
		return t, reason.Errorf(reason.InvalidInput, "a token is valid for %s to %s, and %s was requested", MinLife, MaxLife, r.Life)
	case len(t.Addresses) > maxAddresses:
		return t, reason.Errorf(reason.InvalidInput, "%d ranges of addresses are too many; the limit is %d", len(t.Addresses), maxAddresses)
	}
	if err := checkScopes(t.Scopes); err != nil {
		return t, err
	}
	if err := t.forHooks(); err != nil {
		return t, err
	}
	if err := s.checkHolder(creator, t.Principal); err != nil {
		return t, err
	}
	return t, s.checkRoom(now)
}

func checkScopes(scopes []access.Permission) error {
	if len(scopes) == 0 {
		return reason.Errorf(reason.InvalidInput, "a token without a scope can do nothing").
			WithRemedy("Name its scopes, such as --scope tool.call --scope tool.list.")
	}
	for _, p := range scopes {
		switch {
		case !slices.Contains(access.Permissions, p):
			return reason.Errorf(reason.InvalidInput, "permission %q not found", p).
				WithRemedy("`palyra access show WHO` lists the permissions of a member.")
		case slices.Contains(access.NeverByToken, p):
			return reason.Errorf(reason.InvalidInput, "tokens cannot have the permission %s, which requires a device", p).
				WithRemedy("Have a credential created for the member who does that: `palyrad operator add NAME --role ROLE`.")
		}
	}
	return nil
}

// loopback are the address ranges that are reachable only from this host.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// forHooks restricts a token for an agent's hook, because the token is stored where the agent
// works. It permits only hook reports, and only from this host.
func (t *Token) forHooks() error {
	if !slices.Contains(t.Scopes, access.PermHookReport) {
		return nil
	}
	outside := func(p netip.Prefix) bool {
		return !slices.ContainsFunc(loopback, func(l netip.Prefix) bool { return l.Bits() <= p.Bits() && l.Contains(p.Addr()) })
	}
	switch {
	case len(t.Scopes) > 1:
		return reason.Errorf(reason.InvalidInput, "a token with the scope %s must have no other scope, because the agent can read the token", access.PermHookReport).
			WithRemedy("Make one token for the agent's hook, and another for its calls.")
	case t.Principal.Kind != access.KindAgent:
		return reason.Errorf(reason.InvalidInput, "a token with the scope %s acts as an agent, and %s is not an agent", access.PermHookReport, t.Principal).
			WithRemedy("Make it for an agent of yours: `palyra tokens create --for agent:NAME`.")
	case slices.ContainsFunc(t.Addresses, outside):
		return reason.Errorf(reason.InvalidInput, "a token with the scope %s is valid only on this host", access.PermHookReport).
			WithRemedy("Omit the addresses.")
	case len(t.Addresses) == 0:
		t.Addresses = slices.Clone(loopback)
	}
	return nil
}

// checkHolder permits members to create tokens for themselves and for their own agents. A token
// for another person would allow its creator to act in that person's name.
func (s *Service) checkHolder(creator, holder access.Principal) error {
	if m, ok := s.members.Active(creator); !ok || m.Principal.Kind != access.KindUser {
		return reason.Errorf(reason.PermissionDenied, "%s cannot create tokens: only users can", creator)
	}
	m, ok := s.members.Active(holder)
	if !ok && m.AwaitsConsent {
		return m.Waiting()
	}
	if !ok {
		return reason.Errorf(reason.InvalidInput, "member %s does not exist or may not act", holder)
	}
	if holder != creator && m.Owner != creator {
		return reason.Errorf(reason.PermissionDenied, "%s is neither you nor an agent of yours", holder).
			WithRemedy("Create it for yourself, or for an agent that acts for you; other members create their own.")
	}
	return nil
}

func (s *Service) checkRoom(now time.Time) error {
	live := 0
	for _, t := range s.List() {
		if !t.Revoked() && now.Before(t.ExpiresAt) {
			live++
		}
	}
	if live >= MaxTokens {
		return reason.Errorf(reason.QuotaExceeded, "there are %d tokens, which is the limit", live).
			WithRemedy("Revoke unused tokens: `palyra tokens list`, `palyra tokens revoke ID`.")
	}
	return nil
}

// List returns all tokens with their last use, including ended ones, oldest first.
func (s *Service) List() []Token {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]Token, 0, len(s.tokens))
	for _, t := range s.tokens {
		if at, ok := s.used[t.ID]; ok {
			t.LastUsedAt = at
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Token) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID)) })
	return list
}

// Token returns a token, including one that has ended.
func (s *Service) Token(id string) (Token, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t, ok := s.tokens[id]
	return t, ok
}

// Revoke ends a token permanently. The token's creator, the member that it acts as and the
// owner of that member may revoke it. If others is true, the actor may revoke any token,
// because it may change members. Revoking twice changes nothing.
func (s *Service) Revoke(ctx context.Context, actor access.Principal, id string, others bool) (Token, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	t, ok := s.Token(id)
	// The error does not reveal whether another member has such a token.
	if !ok || !others && !s.belongs(t, actor) {
		return Token{}, reason.Errorf(reason.NotFound, "token %s not found", id).WithRemedy("See `palyra tokens list`.")
	}
	if t.Revoked() {
		return t, nil
	}
	t.RevokedAt, t.RevokedBy = s.now().UTC().Truncate(time.Microsecond), actor
	e, err := event.DraftOf(event.TokenRevoked, actor.String(), t.ID, revoked{TokenID: t.ID, Name: t.Name, Principal: t.Principal})
	if err == nil {
		e, err = e.By(access.DeviceOf(ctx))
	}
	if err != nil {
		return Token{}, err
	}
	if err := s.store.ReplaceToken(context.WithoutCancel(ctx), t, e); err != nil {
		return Token{}, fmt.Errorf("revoking token: %w", err)
	}
	s.put(t)
	s.mu.RLock()
	watchers := slices.Clone(s.watchers)
	s.mu.RUnlock()
	for _, fn := range watchers {
		fn(t)
	}
	return t, nil
}

// RevokeMadeWith revokes the tokens that were created with a device.
func (s *Service) RevokeMadeWith(ctx context.Context, actor access.Principal, device string) error {
	var errs []error
	for _, t := range s.List() {
		if device != "" && t.Device == device && !t.Revoked() {
			_, err := s.Revoke(ctx, actor, t.ID, true)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Of returns the tokens visible to a principal: tokens that act as it or as one of its agents, and
// tokens that it created.
func (s *Service) Of(p access.Principal) []Token {
	return slices.DeleteFunc(s.List(), func(t Token) bool { return !s.belongs(t, p) })
}

// HangingOn returns the tokens that depend on a member's permissions: tokens that act as the
// member and tokens that it created.
func (s *Service) HangingOn(p access.Principal) []Token {
	return slices.DeleteFunc(s.List(), func(t Token) bool { return t.Principal != p && t.CreatedBy != p || t.Revoked() })
}

func (s *Service) belongs(t Token, p access.Principal) bool {
	m, known := s.members.Get(t.Principal)
	return t.CreatedBy == p || t.Principal == p || known && m.Owner == p
}

// OnRevoke registers a function that is called for every token that is revoked, so that its live
// streams can end. Register before serving.
func (s *Service) OnRevoke(fn func(Token)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, fn)
}

// Authenticate returns the caller that a token represents. Its errors have the reason
// Unauthenticated. The error for an unknown token and the error for a wrong secret are the
// same.
func (s *Service) Authenticate(shown string, from netip.Addr) (access.Caller, error) {
	id, secret, ok := parse(shown)
	t, known := s.Token(id)
	// The secret is compared even if the token does not exist.
	if opened := t.opens(secret); !ok || !known || !opened {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "the token is not valid").
			WithRemedy("List the valid tokens with `palyra tokens list`; a token's text is displayed once, when it is created.")
	}
	now := s.now()
	if !t.allows(from) {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "the token %s (%s) may not be used from %s", t.Name, t.ID, from)
	}
	c, err := s.caller(t, now)
	if err == nil {
		s.use(t.ID, now)
	}
	return c, err
}

// Stands returns the reason why a caller with a token must stop: the token was revoked or has
// expired, its member was disabled, or its permissions were reduced. Its errors have the reason
// Unauthenticated.
func (s *Service) Stands(c access.Caller) error {
	t, known := s.Token(c.DeviceID)
	if !known {
		return reason.Errorf(reason.Unauthenticated, "token %s no longer exists", c.DeviceID)
	}
	now, err := s.caller(t, s.now())
	if err != nil {
		return err
	}
	return c.Reduced(now)
}

// caller returns the caller that a token represents at a time.
func (s *Service) caller(t Token, now time.Time) (access.Caller, error) {
	if err := t.usable(now); err != nil {
		return access.Caller{}, err
	}
	if s.revoked(t.Device) {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "the token %s (%s) was made with the device %s, which was revoked", t.Name, t.ID, t.Device).
			WithRemedy("Create another token: `palyra tokens create`.")
	}
	m, ok := s.members.Active(t.Principal)
	if !ok && m.AwaitsConsent {
		return access.Caller{}, m.Waiting()
	}
	if !ok {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "%s of the token %s may not act: it or its owner is disabled or was removed", t.Principal, t.Name)
	}
	if m.Principal != t.CreatedBy && m.Owner != t.CreatedBy {
		return access.Caller{}, reason.Errorf(reason.Unauthenticated, "the token %s acts as %s, which %s no longer owns", t.Name, m.Principal, t.CreatedBy).
			WithRemedy("Create another token: `palyra tokens create`.")
	}
	c := m.Caller(t.ID)
	c.Token = &access.TokenBounds{Scopes: t.Scopes, Creator: t.CreatedBy, ExpiresAt: t.ExpiresAt}
	return c, nil
}

// use records that a token was used.
func (s *Service) use(id string, now time.Time) {
	s.mu.RLock()
	last := s.used[id]
	s.mu.RUnlock()
	if now.Sub(last) < usedEvery {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[id] = now.UTC().Truncate(time.Microsecond)
}

// Flush stores the times of the last uses of tokens. The caller calls it regularly and at the
// end.
func (s *Service) Flush(ctx context.Context) error {
	s.mu.RLock()
	used := maps.Clone(s.used)
	s.mu.RUnlock()
	maps.DeleteFunc(used, func(id string, at time.Time) bool { t, _ := s.Token(id); return !at.After(t.LastUsedAt) })
	if len(used) == 0 {
		return nil
	}
	if err := s.store.UsedTokens(ctx, used); err != nil {
		return fmt.Errorf("noting the use of tokens: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, at := range used {
		t := s.tokens[id]
		t.LastUsedAt = at
		s.tokens[id] = t
	}
	return nil
}

// Run calls Flush every minute until ctx ends, and once more at the end. Errors are passed to
// failed and do not end Run, because only times of use are lost.
func (s *Service) Run(ctx context.Context, failed func(error)) error {
	tick := time.NewTicker(usedEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := s.Flush(context.WithoutCancel(ctx)); err != nil {
				failed(err)
			}
			return nil
		case <-tick.C:
			if err := s.Flush(ctx); err != nil && ctx.Err() == nil {
				failed(err)
			}
		}
	}
}

// tidy sorts scopes and removes duplicates, so that events can be compared.
func tidy(scopes []access.Permission) []access.Permission {
	out := slices.Clone(scopes)
	slices.Sort(out)
	return slices.Compact(out)
}

// The payloads of this package's events; docs/reference/events.md describes them.
type (
	made struct {
		TokenID   string              `json:"token_id"`
		Name      string              `json:"name"`
		Principal access.Principal    `json:"principal"`
		Scopes    []access.Permission `json:"scopes"`
		Addresses []netip.Prefix      `json:"addresses,omitempty"`
		ExpiresAt time.Time           `json:"expires_at"`
	}
	revoked struct {
		TokenID   string           `json:"token_id"`
		Name      string           `json:"name"`
		Principal access.Principal `json:"principal"`
	}
)
