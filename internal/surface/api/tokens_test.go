package api_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/store/sqlite"
)

func (c *client) tokens() palyrav1connect.TokenServiceClient {
	return palyrav1connect.NewTokenServiceClient(c.http, c.w.url)
}

// create creates a token.
func (c *client) create(req *palyrav1.CreateTokenRequest) *palyrav1.CreateTokenResponse {
	c.w.t.Helper()
	if req.GetName() == "" {
		req.Name = "ci"
	}
	return must.Get(c.tokens().CreateToken(c.w.t.Context(), req))(c.w.t)
}

// headers adds Authorization headers to every request.
type headers struct {
	http.RoundTripper
	authorization []string
}

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header["Authorization"] = h.authorization
	return h.RoundTripper.RoundTrip(r)
}

// showing returns a client without a certificate that sends tokens.
func (w *world) showing(authorization ...string) *client {
	return w.connect("", nil).and(authorization...)
}

func (c *client) and(authorization ...string) *client {
	more := *c.http
	more.Transport = headers{more.Transport, authorization}
	return &client{w: c.w, device: c.device, http: &more}
}

// TestTokenCalls: a token of an agent makes calls as the agent over every protocol, under the
// token's id, and only within its scopes.
func TestTokenCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.alice.create(&palyrav1.CreateTokenRequest{Principal: "agent:coder", Scopes: []string{"tool.call"}})
	for name, opts := range protocols {
		for _, scheme := range []string{"Bearer ", "bearer "} {
			if _, err := w.showing(scheme+made.GetText()).call(reading(), opts...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	c := w.showing("Bearer " + made.GetText())
	list := must.Get(w.alice.listed())(t)
	if len(list) != 1 || list[0].GetPrincipal() != "agent:coder" || list[0].GetDeviceId() != made.GetToken().GetTokenId() {
		t.Errorf("the calls are of %v", list)
	}
	_, err := c.gateway().ListTools(t.Context(), &palyrav1.ListToolsRequest{})
	wantError(t, "another permission of the agent", err, reason.PermissionDenied)
	if _, err := w.coder.gateway().ListTools(t.Context(), &palyrav1.ListToolsRequest{}); err != nil {
		t.Errorf("control: the agent itself: %v", err)
	}
}

// TestTokensOfADevice: a list has the device that created each token, and can be filtered by
// device. The filter reveals no additional tokens.
func TestTokensOfADevice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := map[*client]string{}
	for _, c := range []*client{w.alice, w.bob} {
		of[c] = c.create(&palyrav1.CreateTokenRequest{Scopes: []string{"daemon.status"}}).GetToken().GetTokenId()
	}
	for name, c := range map[string]struct {
		by     *client
		device string
		want   int
	}{
		"hers": {w.alice, w.alice.device, 1}, "all": {w.alice, "", 2}, "his": {w.alice, w.bob.device, 1},
		"hers, by who sees none": {w.bob, w.alice.device, 0}, "of none": {w.alice, "01JNA3Q0G0DEV1CE0000000099", 0},
	} {
		list := must.Get(c.by.tokens().ListTokens(t.Context(), &palyrav1.ListTokensRequest{MadeWithDeviceId: c.device}))(t).GetTokens()
		if len(list) != c.want || c.want == 1 && list[0].GetMadeWithDeviceId() != c.device {
			t.Errorf("%s: %v", name, list)
		}
	}
	if list := must.Get(w.alice.tokens().ListTokens(t.Context(), &palyrav1.ListTokensRequest{MadeWithDeviceId: w.bob.device}))(t).GetTokens(); len(list) != 1 || list[0].GetTokenId() != of[w.bob] {
		t.Errorf("his are %v", list)
	}
}

// TestTokensCannotDecide: a token cannot use a permission that tokens cannot have, even if its
// holder could.
func TestTokensCannotDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := []string{}
	for _, p := range access.Permissions {
		_, err := w.alice.tokens().CreateToken(t.Context(), &palyrav1.CreateTokenRequest{Name: "ci", Scopes: []string{string(p)}})
		if err != nil {
			wantError(t, string(p), err, reason.InvalidInput)
			continue
		}
		if p == access.PermHookReport {
			t.Errorf("a person got a token with the scope %s", p)
		}
		all = append(all, string(p))
	}
	if len(all) != len(access.Permissions)-len(access.NeverByToken)-1 { // hook.report is only for agents
		t.Errorf("scopes that there are: %v", all)
	}
	c := w.showing("Bearer " + w.alice.create(&palyrav1.CreateTokenRequest{Scopes: all}).GetText())
	_, err := c.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
	if err != nil {
		t.Errorf("control: %v", err)
	}
	_, err = c.approvals().DecideApproval(t.Context(), &palyrav1.DecideApprovalRequest{
		ApprovalId: "01JNA3Q0G0TEST000000000001", ShownDigest: "sha256:" + strings.Repeat("a", 64), Allow: true,
	})
	wantError(t, "a vote", err, reason.PermissionDenied)
	_, err = c.status().Thaw(t.Context(), &palyrav1.ThawRequest{})
	wantError(t, "a thaw", err, reason.PermissionDenied)
	_, err = c.tokens().CreateToken(t.Context(), &palyrav1.CreateTokenRequest{Name: "more", Scopes: []string{"tool.call"}})
	wantError(t, "another token", err, reason.PermissionDenied)
}

// TestTokensCannotEscalate: no caller can grant a scope that it or the agent lacks, or create a
// token in another member's name.
func TestTokensCannotEscalate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		by   *client
		req  *palyrav1.CreateTokenRequest
		want reason.Code
	}{
		"the creator lacks it":    {w.dan, &palyrav1.CreateTokenRequest{Scopes: []string{"journal.export"}}, reason.PermissionDenied},
		"the agent lacks it":      {w.alice, &palyrav1.CreateTokenRequest{Principal: "agent:coder", Scopes: []string{"journal.export"}}, reason.PermissionDenied},
		"another person's":        {w.alice, &palyrav1.CreateTokenRequest{Principal: "user:bob", Scopes: []string{"tool.call"}}, reason.PermissionDenied},
		"another person's agent":  {w.bob, &palyrav1.CreateTokenRequest{Principal: "agent:coder", Scopes: []string{"tool.call"}}, reason.PermissionDenied},
		"an agent makes one":      {w.coder, &palyrav1.CreateTokenRequest{Scopes: []string{"tool.call"}}, reason.PermissionDenied},
		"an auditor makes one":    {w.eve, &palyrav1.CreateTokenRequest{Scopes: []string{"journal.read"}}, reason.PermissionDenied},
		"no principal":            {w.alice, &palyrav1.CreateTokenRequest{Principal: "coder", Scopes: []string{"tool.call"}}, reason.InvalidInput},
		"no range":                {w.alice, &palyrav1.CreateTokenRequest{Scopes: []string{"tool.call"}, Addresses: []string{"here"}}, reason.InvalidInput},
		"a range with host bits":  {w.alice, &palyrav1.CreateTokenRequest{Scopes: []string{"tool.call"}, Addresses: []string{"10.0.0.1/8"}}, reason.InvalidInput},
		"a life without an end":   {w.alice, &palyrav1.CreateTokenRequest{Scopes: []string{"tool.call"}, Life: &durationpb.Duration{Seconds: 1 << 40}}, reason.InvalidInput},
		"a life that is past":     {w.alice, &palyrav1.CreateTokenRequest{Scopes: []string{"tool.call"}, Life: &durationpb.Duration{Seconds: -1}}, reason.InvalidInput},
		"a scope that is a group": {w.alice, &palyrav1.CreateTokenRequest{Scopes: []string{"tool.*"}}, reason.InvalidInput},
	} {
		c.req.Name = "ci"
		_, err := c.by.tokens().CreateToken(t.Context(), c.req)
		wantError(t, name, err, c.want)
	}
	if list := must.Get(w.alice.tokens().ListTokens(t.Context(), &palyrav1.ListTokensRequest{All: true}))(t).GetTokens(); len(list) != 0 {
		t.Errorf("made all the same: %v", list)
	}
}

// TestTokenIsBoundToItsCreator: a token of dan's agent ends with a permission that dan loses, even
// if the agent keeps it.
func TestTokenIsBoundToItsCreator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bot := w.admit(access.Agent("bot"), access.User("dan"), access.RoleAgent)
	members := must.Get(sqlite.NewIdentity(w.db).Members(t.Context()))(t)
	w.engine.Swap(w.policySet(members))
	c := w.showing("Bearer " + w.dan.create(&palyrav1.CreateTokenRequest{Principal: "agent:bot", Scopes: []string{"tool.call"}}).GetText())
	if _, err := c.call(reading()); err != nil {
		t.Fatal(err)
	}
	for i := range members {
		if members[i].Principal == access.User("dan") {
			members[i].Roles = []access.Role{access.RoleAuditor}
		}
	}
	w.engine.Swap(w.policySet(members))
	_, err := c.call(reading())
	wantError(t, "after dan is no developer any more", err, reason.PermissionDenied)
	if _, err := bot.call(reading()); err != nil {
		t.Errorf("control: the agent itself: %v", err)
	}
}

// TestOneCredential: a request with two credentials, or with an invalid token, is
// unauthenticated. Each refusal counts against the rate limit.
func TestOneCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := w.alice.create(&palyrav1.CreateTokenRequest{Scopes: []string{"tool.call"}}).GetText()
	for name, c := range map[string]*client{
		"a certificate and a token": w.alice.and("Bearer " + text),
		"two tokens":                w.showing("Bearer "+text, "Bearer "+text),
		"another scheme":            w.showing("Basic " + text),
		"no scheme":                 w.showing(text),
		"nothing":                   w.showing(""),
		"two spaces":                w.showing("Bearer  " + text),
		"another secret":            w.showing("Bearer " + text[:len(text)-2] + "zz"),
		"no token at all":           w.connect("", nil),
	} {
		before := w.audit.count()
		_, err := c.call(reading())
		wantError(t, name, err, reason.Unauthenticated)
		if err != nil && strings.Contains(err.Error(), text[40:]) {
			t.Errorf("%s: the error has the secret: %v", name, err)
		}
		if w.audit.count() == before {
			t.Errorf("%s: the refusal is not counted", name)
		}
	}
	if strings.Contains(w.log.String(), text[40:]) {
		t.Error("the log has the secret")
	}
	if _, err := w.showing("Bearer " + text).call(reading()); err != nil {
		t.Errorf("control: %v", err)
	}
}

// TestTokenFromAnotherAddress: the restriction of addresses applies to the connection's
// address.
func TestTokenFromAnotherAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	far := w.alice.create(&palyrav1.CreateTokenRequest{Scopes: []string{"tool.call"}, Addresses: []string{"192.0.2.0/24"}}).GetText()
	near := w.alice.create(&palyrav1.CreateTokenRequest{Scopes: []string{"tool.call"}, Addresses: []string{"192.0.2.0/24", "127.0.0.1"}}).GetText()
	_, err := w.showing("Bearer " + far).call(reading())
	wantError(t, "from another network", err, reason.Unauthenticated)
	if _, err := w.showing("Bearer " + near).call(reading()); err != nil {
		t.Error(err)
	}
}

// TestRevokedTokenEndsItsStreams: revoking a token ends the streams that were opened with it.
func TestRevokedTokenEndsItsStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.bob.create(&palyrav1.CreateTokenRequest{Scopes: []string{"journal.tail"}})
	stream := must.Get(w.showing("Bearer "+made.GetText()).journal().TailEvents(t.Context(), &palyrav1.TailEventsRequest{}))(t)
	defer stream.Close()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	_, err := w.dan.tokens().RevokeToken(t.Context(), &palyrav1.RevokeTokenRequest{TokenId: made.GetToken().GetTokenId()})
	wantError(t, "dan revokes bob's", err, reason.NotFound)
	must.Get(w.alice.tokens().RevokeToken(t.Context(), &palyrav1.RevokeTokenRequest{TokenId: made.GetToken().GetTokenId()}))(t)
	for stream.Receive() {
		continue
	}
	wantError(t, "the stream", stream.Err(), reason.Unauthenticated)
	_, err = w.showing("Bearer "+made.GetText()).journal().ListEvents(t.Context(), &palyrav1.ListEventsRequest{})
	wantError(t, "another request", err, reason.Unauthenticated)
}

// TestTokenVisibility: a member can list its own tokens and its agents' tokens; a reader of
// members can list all.
func TestTokenVisibility(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.alice.create(&palyrav1.CreateTokenRequest{Name: "a", Scopes: []string{"tool.call"}})
	gone := w.dan.create(&palyrav1.CreateTokenRequest{Name: "b", Scopes: []string{"tool.call"}, Addresses: []string{netip.MustParsePrefix("10.0.0.0/8").String()}})
	must.Get(w.dan.tokens().RevokeToken(t.Context(), &palyrav1.RevokeTokenRequest{TokenId: gone.GetToken().GetTokenId()}))(t)
	w.dan.create(&palyrav1.CreateTokenRequest{Name: "c", Scopes: []string{"tool.call"}})
	names := func(c *client, all bool) string {
		var list []string
		for _, one := range must.Get(c.tokens().ListTokens(t.Context(), &palyrav1.ListTokensRequest{All: all}))(t).GetTokens() {
			list = append(list, one.GetName())
		}
		return strings.Join(list, " ")
	}
	if got := names(w.dan, false); got != "c" {
		t.Errorf("dan sees %q", got)
	}
	if got := names(w.dan, true); got != "c b" {
		t.Errorf("dan sees of all %q", got)
	}
	if got := names(w.alice, true); got != "c b a" {
		t.Errorf("alice sees %q", got)
	}
}
