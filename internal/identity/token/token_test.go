package token_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity/token"
	"palyra/internal/identity/token/tokentest"
)

var (
	ann  = access.User("ann")
	bob  = access.User("bob")
	bot  = access.Agent("bot")
	here = netip.MustParseAddr("127.0.0.1")
)

// members are the members of the tests: ann, bob, and ann's agent bot.
type members map[access.Principal]access.Member

func (m members) Get(p access.Principal) (access.Member, bool) {
	one, ok := m[p]
	return one, ok
}

func (m members) Active(p access.Principal) (access.Member, bool) {
	one, ok := m[p]
	if !ok || one.Disabled || !one.Owner.IsZero() && m[one.Owner].Disabled {
		return access.Member{}, false
	}
	return one, true
}

type world struct {
	*token.Service
	members members
	store   *tokentest.Store
	now     time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{store: tokentest.NewStore(t), now: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC), members: members{
		ann: {Principal: ann, Roles: []access.Role{access.RoleOwner}},
		bob: {Principal: bob, Roles: []access.Role{access.RoleDeveloper}},
		bot: {Principal: bot, Owner: ann, Roles: []access.Role{access.RoleAgent}},
	}}
	w.open(t)
	return w
}

// open starts the service, as a start of the gateway does.
func (w *world) open(t *testing.T) {
	t.Helper()
	w.Service = must.Get(token.New(t.Context(), token.Config{Store: w.store, Members: w.members, Now: func() time.Time { return w.now }}))(t)
}

func (w *world) create(t *testing.T, by access.Principal, r token.Request) (token.Token, string) {
	t.Helper()
	if r.Name == "" {
		r.Name = "ci"
	}
	if r.Scopes == nil {
		r.Scopes = []access.Permission{access.PermToolCall}
	}
	w.now = w.now.Add(time.Millisecond) // ids of the same millisecond have no order
	made, text, err := w.Create(t.Context(), by, r)
	must.Do(t, err)
	return made, text
}

func TestTokenActsAsItsHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, text := w.create(t, ann, token.Request{For: bot, Scopes: []access.Permission{access.PermToolList, access.PermToolCall, access.PermToolCall}})
	w.open(t) // the token survives a restart
	c := must.Get(w.Authenticate(text, here))(t)
	if c.Principal != bot || c.OnBehalfOf != ann || c.DeviceID != made.ID || c.Paired || c.Present {
		t.Errorf("the caller is %+v", c)
	}
	if c.Token == nil || len(c.Token.Scopes) != 2 || c.Token.Creator != ann {
		t.Errorf("the bounds are %+v", c.Token)
	}
	if want := w.now.Add(token.DefaultLife); !made.ExpiresAt.Equal(want) {
		t.Errorf("expires %s, want %s", made.ExpiresAt, want)
	}
}

// Neither the store nor an event contains a secret.
func TestSecretIsKeptNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, text := w.create(t, ann, token.Request{})
	secret := text[strings.LastIndex(text, "_")+1:]
	for _, kept := range []any{made, must.Get(w.store.Tokens(t.Context()))(t), w.store.Events(), w.List()} {
		written := string(must.Get(json.Marshal(kept))(t))
		if strings.Contains(written, secret) {
			t.Errorf("%T has the secret", kept)
		}
	}
	if strings.Contains(token.Redact(text), secret[:8]) || !strings.Contains(token.Redact(text), strings.ToLower(made.ID)) {
		t.Errorf("redacted: %s", token.Redact(text))
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bound, text := w.create(t, ann, token.Request{For: bot, Life: time.Hour, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}})
	other, _ := w.create(t, ann, token.Request{})
	swapped := "pal_" + strings.ToLower(other.ID) + text[strings.LastIndex(text, "_"):]
	came := must.Get(w.Authenticate(text, netip.MustParseAddr("127.0.0.1")))(t)
	for name, c := range map[string]struct {
		shown  string
		from   string
		before func()
		want   string
	}{
		"it is right":                  {text, "127.0.0.1", nil, ""},
		"it is right, mapped":          {text, "::ffff:127.0.0.1", nil, ""},
		"it is right, by IPv6":         {text, "fd00::1", nil, ""},
		"nothing":                      {"", "127.0.0.1", nil, "not valid"},
		"no token":                     {"pal_x", "127.0.0.1", nil, "not valid"},
		"longer":                       {text + "0", "127.0.0.1", nil, "not valid"},
		"with a line break":            {text + "\n", "127.0.0.1", nil, "not valid"},
		"in capitals":                  {strings.ToUpper(text), "127.0.0.1", nil, "not valid"},
		"another secret":               {text[:len(text)-1] + other1(text), "127.0.0.1", nil, "not valid"},
		"another id":                   {"pal_" + strings.Repeat("0", 26) + text[strings.LastIndex(text, "_"):], "127.0.0.1", nil, "not valid"},
		"the secret of another":        {swapped, "127.0.0.1", nil, "not valid"},
		"an empty digest's secret":     {"pal_" + strings.Repeat("0", 26) + "_" + strings.Repeat("0", 64), "127.0.0.1", nil, "not valid"},
		"from elsewhere":               {text, "10.0.0.1", nil, "may not be used from"},
		"from nowhere":                 {text, "", nil, "may not be used from"},
		"expired":                      {text, "127.0.0.1", func() { w.now = bound.ExpiresAt }, "expired"},
		"its holder is disabled":       {text, "127.0.0.1", func() { w.members[bot] = access.Member{Principal: bot, Owner: ann, Disabled: true} }, "may not act"},
		"its holder's owner is":        {text, "127.0.0.1", func() { w.members[ann] = access.Member{Principal: ann, Disabled: true} }, "may not act"},
		"its holder has another owner": {text, "127.0.0.1", func() { w.members[bot] = access.Member{Principal: bot, Owner: bob} }, "no longer owns"},
		"its holder is gone":           {text, "127.0.0.1", func() { delete(w.members, bot) }, "may not act"},
		"another's is wrong in itself": {text + text, "127.0.0.1", nil, "not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			now, all := w.now, members{}
			for p, m := range w.members {
				all[p] = m
			}
			defer func() {
				w.now = now
				for p, m := range all {
					w.members[p] = m
				}
			}()
			if c.before != nil {
				c.before()
			}
			from, _ := netip.ParseAddr(c.from)
			caller, err := w.Authenticate(c.shown, from)
			// The event that ends the token also ends streams that it opened.
			if stands := w.Stands(came); (stands == nil) != (c.before == nil) || stands != nil && reason.Of(stands) != reason.Unauthenticated {
				t.Errorf("whoever came in before: %v", stands)
			}
			if c.want == "" {
				must.Do(t, err)
				return
			}
			if reason.Of(err) != reason.Unauthenticated || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if !caller.Principal.IsZero() {
				t.Errorf("a caller with the error: %+v", caller)
			}
		})
	}
}

// other1 returns a different last digit.
func other1(text string) string {
	if strings.HasSuffix(text, "0") {
		return "1"
	}
	return "0"
}

func TestInvalidTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	call := []access.Permission{access.PermToolCall}
	for name, c := range map[string]struct {
		by   access.Principal
		r    token.Request
		want reason.Code
	}{
		"no name":               {ann, token.Request{Scopes: call}, reason.InvalidInput},
		"a name of two lines":   {ann, token.Request{Name: "a\nb", Scopes: call}, reason.InvalidInput},
		"no scope":              {ann, token.Request{Name: "ci"}, reason.InvalidInput},
		"a scope that is none":  {ann, token.Request{Name: "ci", Scopes: []access.Permission{"tool.*"}}, reason.InvalidInput},
		"too short":             {ann, token.Request{Name: "ci", Scopes: call, Life: time.Second}, reason.InvalidInput},
		"too long":              {ann, token.Request{Name: "ci", Scopes: call, Life: 366*24*time.Hour + time.Second}, reason.InvalidInput},
		"backwards":             {ann, token.Request{Name: "ci", Scopes: call, Life: -time.Hour}, reason.InvalidInput},
		"for another person":    {ann, token.Request{Name: "ci", Scopes: call, For: bob}, reason.PermissionDenied},
		"for another's agent":   {bob, token.Request{Name: "ci", Scopes: call, For: bot}, reason.PermissionDenied},
		"for no member":         {ann, token.Request{Name: "ci", Scopes: call, For: access.Agent("none")}, reason.InvalidInput},
		"by an agent":           {bot, token.Request{Name: "ci", Scopes: call}, reason.PermissionDenied},
		"by somebody unknown":   {access.User("eve"), token.Request{Name: "ci", Scopes: call}, reason.PermissionDenied},
		"with too many ranges":  {ann, token.Request{Name: "ci", Scopes: call, Addresses: make([]netip.Prefix, 33)}, reason.InvalidInput},
		"by the daemon's name ": {access.Principal{Kind: access.KindService, Name: "palyrad"}, token.Request{Name: "ci", Scopes: call}, reason.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			_, text, err := w.Create(t.Context(), c.by, c.r)
			if reason.Of(err) != c.want || text != "" {
				t.Errorf("%q, %v; want %s", text, err, c.want)
			}
		})
	}
	for _, p := range access.NeverByToken {
		if _, _, err := w.Create(t.Context(), ann, token.Request{Name: "ci", Scopes: []access.Permission{access.PermToolCall, p}}); reason.Of(err) != reason.InvalidInput {
			t.Errorf("scope %s: %v", p, err)
		}
	}
	if n := len(w.List()); n != 0 {
		t.Errorf("%d tokens were made", n)
	}
}

// The number of tokens is limited; ended tokens do not count.
func TestTokensAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range token.MaxTokens {
		one := token.Token{ID: fmt.Sprintf("%026d", n), Name: "ci", Principal: ann, CreatedBy: ann, CreatedAt: w.now, ExpiresAt: w.now.Add(time.Hour)}
		must.Do(t, w.store.AddToken(t.Context(), one, event.Draft{Code: event.TokenMade, Actor: ann.String(), Payload: []byte("{}")}))
	}
	w.open(t)
	request := token.Request{Name: "ci", Scopes: []access.Permission{access.PermToolCall}}
	if _, _, err := w.Create(t.Context(), ann, request); reason.Of(err) != reason.QuotaExceeded {
		t.Errorf("one more: %v", err)
	}
	must.Get(w.Service.Revoke(t.Context(), ann, strings.Repeat("0", 26), false))(t)
	w.create(t, ann, request)
	if _, _, err := w.Create(t.Context(), ann, request); reason.Of(err) != reason.QuotaExceeded {
		t.Errorf("one more again: %v", err)
	}
	w.now = w.now.Add(time.Hour)
	w.create(t, ann, request)
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, text := w.create(t, ann, token.Request{For: bot})
	var ended []string
	w.OnRevoke(func(t token.Token) { ended = append(ended, t.ID) })
	if _, err := w.Revoke(t.Context(), bob, made.ID, false); reason.Of(err) != reason.NotFound {
		t.Errorf("bob revokes ann's: %v", err)
	}
	must.Get(w.Authenticate(text, here))(t)
	w.store.Fail(errors.New("disk full"))
	if _, err := w.Revoke(t.Context(), ann, made.ID, false); err == nil {
		t.Error("revoked without a record")
	}
	must.Get(w.Authenticate(text, here))(t)
	w.store.Fail(nil)
	gone := must.Get(w.Revoke(t.Context(), bob, made.ID, true))(t)
	if !gone.Revoked() || gone.RevokedBy != bob || len(ended) != 1 || ended[0] != made.ID {
		t.Errorf("%+v, told %v", gone, ended)
	}
	again := must.Get(w.Revoke(t.Context(), ann, made.ID, false))(t)
	if again.RevokedBy != bob || len(ended) != 1 {
		t.Errorf("revoked again: %+v, told %v", again, ended)
	}
	w.open(t)
	if _, err := w.Authenticate(text, here); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a revoked token after a start: %v", err)
	}
}

// TestListTokens: a caller can list its own tokens and its agents' tokens.
func TestListTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := func(p access.Principal) (names []string) {
		for _, t := range w.Of(p) {
			names = append(names, t.Name)
		}
		return names
	}
	w.create(t, ann, token.Request{Name: "one"})
	w.create(t, ann, token.Request{Name: "two", For: bot})
	w.create(t, bob, token.Request{Name: "three"})
	if got := strings.Join(of(ann), " "); got != "one two" {
		t.Errorf("ann sees %s", got)
	}
	if got := strings.Join(of(bob), " "); got != "three" {
		t.Errorf("bob sees %s", got)
	}
	if got := strings.Join(of(bot), " "); got != "two" {
		t.Errorf("bot sees %s", got)
	}
}

// The last use is visible at once, and is stored at most once a minute.
func TestLastUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, text := w.create(t, ann, token.Request{})
	first := w.now
	must.Get(w.Authenticate(text, here))(t)
	w.now = w.now.Add(30 * time.Second)
	must.Get(w.Authenticate(text, here))(t)
	if got := w.List()[0].LastUsedAt; !got.Equal(first) {
		t.Errorf("last used %s, want %s", got, first)
	}
	must.Do(t, w.Flush(t.Context()))
	w.now = w.now.Add(time.Minute)
	must.Get(w.Authenticate(text, here))(t)
	w.store.Fail(errors.New("disk full"))
	if w.Flush(t.Context()) == nil {
		t.Error("a failure is not told")
	}
	w.store.Fail(nil)
	must.Do(t, w.Flush(t.Context()))
	w.open(t)
	if got := w.List()[0]; got.ID != made.ID || !got.LastUsedAt.Equal(w.now) {
		t.Errorf("after a start: %+v", got)
	}
}

func TestConcurrentAuthentication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, text := w.create(t, ann, token.Request{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				_, _ = w.Authenticate(text, here)
				_, _, _ = w.Create(t.Context(), bob, token.Request{Name: "x", Scopes: []access.Permission{access.PermToolList}})
				_ = w.Flush(t.Context())
			}
		})
	}
	wg.Wait()
	if n := len(w.List()); n != 401 {
		t.Errorf("%d tokens", n)
	}
}

// Any text is invalid, or is exactly the created token.
func FuzzAuthenticate(f *testing.F) {
	f.Add("pal_01jna3q0g0test000000000001_" + strings.Repeat("0", 64))
	f.Add("")
	w := &world{store: tokentest.NewStore(f), members: members{ann: {Principal: ann}}, now: time.Unix(0, 0)}
	s, err := token.New(f.Context(), token.Config{Store: w.store, Members: w.members})
	must.Do(f, err)
	_, text, err := s.Create(f.Context(), ann, token.Request{Name: "ci", Scopes: []access.Permission{access.PermToolCall}})
	must.Do(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, shown string) {
		if _, err := s.Authenticate(shown, here); (err == nil) != (shown == text) {
			t.Errorf("%q: %v", shown, err)
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	w := &world{store: tokentest.NewStore(b), members: members{ann: {Principal: ann}}}
	s, err := token.New(b.Context(), token.Config{Store: w.store, Members: w.members})
	must.Do(b, err)
	_, text, err := s.Create(b.Context(), ann, token.Request{Name: "ci", Scopes: []access.Permission{access.PermToolCall}})
	must.Do(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Authenticate(text, here); err != nil {
			b.Fatal(err)
		}
	}
}

// A token ends with the device that created it, even if its own record is not revoked. Tokens
// of other devices remain valid.
func TestTokenEndsWithItsDevice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost := ""
	w.Service = must.Get(token.New(t.Context(), token.Config{
		Store: w.store, Members: w.members, Now: func() time.Time { return w.now }, Revoked: func(device string) bool { return device != "" && device == lost },
	}))(t)
	of, text := w.create(t, ann, token.Request{Device: "laptop", For: bot})
	other, otherText := w.create(t, ann, token.Request{Device: "desk"})
	_, oldText := w.create(t, ann, token.Request{})
	must.Get(w.Authenticate(text, here))(t)
	lost = "laptop"
	if _, err := w.Authenticate(text, here); reason.Of(err) != reason.Unauthenticated || !strings.Contains(err.Error(), "laptop") {
		t.Errorf("the token of a lost laptop: %v", err)
	}
	must.Do(t, w.RevokeMadeWith(t.Context(), bob, "laptop"))
	must.Do(t, w.RevokeMadeWith(t.Context(), bob, "laptop"))
	must.Do(t, w.RevokeMadeWith(t.Context(), bob, ""))
	for _, one := range w.List() {
		if one.Revoked() != (one.ID == of.ID) || one.ID == of.ID && one.RevokedBy != bob {
			t.Errorf("%+v", one)
		}
	}
	must.Get(w.Authenticate(otherText, here))(t)
	must.Get(w.Authenticate(oldText, here))(t)
	if other.Device != "desk" {
		t.Errorf("the device is %q", other.Device)
	}
}
