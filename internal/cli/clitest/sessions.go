package clitest

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
)

// SessionID is the id of the one session.
const SessionID = "01SESS10N00000000000000000"

// TokenID is the id of the one token, and TokenText the text of every created token.
const (
	TokenID   = "01T0KEN0000000000000000000"
	TokenText = "pal_01t0ken0000000000000000000_" + "5ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2"
)

// ConsoleSessionID is the id of the one console session, and ConsoleLink the link of every login.
const (
	ConsoleSessionID = "01C0NS0LE00000000000000000"
	ConsoleLink      = "http://palyra-test.localhost:7145/login#token=T0KEN"
	consoleLoginID   = "01L0G1N0000000000000000000"
)

// serveSessions serves sessions, tokens and console sessions: one of each.
func serveSessions(f *Gateway) {
	f.replyAbout(SessionID, "session %s not found",
		&palyrav1.GetSessionResponse{Session: someSession(), Facts: &palyrav1.SessionFacts{
			InFlight: 1, ToolsUsed: []string{"fs.read", "http.fetch"}, SecretsRead: []string{"github"}, Tainted: true, BytesOut: 42,
		}},
		&palyrav1.SessionServiceEndSessionResponse{Session: someSession()},
	)
	on(f, func(*palyrav1.ListSessionsRequest) (*palyrav1.ListSessionsResponse, error) {
		return &palyrav1.ListSessionsResponse{Sessions: append([]*palyrav1.Session{someSession()}, f.MoreSessions...)}, nil
	})
	edit(f, func(req *palyrav1.SessionServiceEndSessionRequest, res *palyrav1.SessionServiceEndSessionResponse) {
		res.Session.State, res.Session.EndedAt, res.Session.EndedBy, res.Session.EndReason = palyrav1.SessionState_SESSION_STATE_ENDED, now, "user:ada", req.GetReason()
	})
	f.replyAbout(TokenID, "token %s not found", &palyrav1.RevokeTokenResponse{Token: revokedToken()})
	f.reply(&palyrav1.CreateTokenResponse{Token: someToken(), Text: TokenText})
	on(f, func(req *palyrav1.ListTokensRequest) (*palyrav1.ListTokensResponse, error) {
		list := []*palyrav1.Token{someToken()}
		if req.GetAll() {
			list = []*palyrav1.Token{revokedToken(), someToken()}
		}
		return &palyrav1.ListTokensResponse{Tokens: slices.DeleteFunc(list, func(t *palyrav1.Token) bool {
			return req.GetMadeWithDeviceId() != "" && req.GetMadeWithDeviceId() != t.GetMadeWithDeviceId()
		})}, nil
	})
	edit(f, func(req *palyrav1.CreateTokenRequest, res *palyrav1.CreateTokenResponse) {
		made := res.GetToken()
		made.Name, made.Scopes, made.Addresses = req.GetName(), req.GetScopes(), req.GetAddresses()
		made.ExpiresAt, made.Principal = timestamppb.New(Now.Add(req.GetLife().AsDuration())), cmp.Or(req.GetPrincipal(), "user:ada")
	})
	session := &palyrav1.ConsoleSession{
		SessionId: ConsoleSessionID, Principal: "user:ada", DeviceId: "01DEVICE000000000000000000", LoginId: consoleLoginID,
		CreatedAt: now, LastUsedAt: now, EndsAt: ago(-12 * time.Hour), IdleAt: ago(-2 * time.Hour),
		Address: "127.0.0.1", UserAgent: "Browser/1.0",
	}
	f.replyAbout(ConsoleSessionID, "session %s not found", &palyrav1.RevokeConsoleSessionResponse{Session: session})
	f.reply(
		&palyrav1.CreateConsoleLoginResponse{Url: ConsoleLink, ExpiresAt: ago(-time.Minute), LoginId: consoleLoginID},
		&palyrav1.ListConsoleSessionsResponse{Sessions: []*palyrav1.ConsoleSession{session}},
		&palyrav1.WhoamiResponse{Principal: "user:ada", OnBehalfOf: "user:ada", Surface: "grpc", Now: now},
	)
}

func someSession() *palyrav1.Session {
	return &palyrav1.Session{
		SessionId: SessionID, Principal: "agent:claude", OnBehalfOf: "user:ada", DeviceId: "01DEVICE000000000000000000", Client: "api",
		State: palyrav1.SessionState_SESSION_STATE_OPEN, StartedAt: now, LastAt: now,
		Calls: 12, RunCalls: 3, Limit: 1000,
	}
}

func someToken() *palyrav1.Token {
	return &palyrav1.Token{
		TokenId: TokenID, Name: "ci", Principal: "agent:claude", CreatedBy: "user:ada", Scopes: []string{"tool.call", "tool.list"},
		Addresses: []string{"10.0.0.0/8"}, CreatedAt: now, ExpiresAt: ago(-90 * 24 * time.Hour),
		MadeWithDeviceId: "01DEVICE000000000000000000",
	}
}

// revokedToken is the one token after its revocation.
func revokedToken() *palyrav1.Token {
	gone := someToken()
	gone.RevokedAt, gone.RevokedBy = now, "user:ada"
	return gone
}
