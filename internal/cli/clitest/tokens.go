package clitest

import (
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
)

// TokenID is the id of the one token, and TokenText the text of every created token.
const (
	TokenID   = "01T0KEN0000000000000000000"
	TokenText = "pal_01t0ken0000000000000000000_" + "5ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2"
)

type fakeTokens struct{ f *Gateway }

func someToken() *palyrav1.Token {
	return &palyrav1.Token{
		TokenId: TokenID, Name: "ci", Principal: "agent:claude", CreatedBy: "user:ada", Scopes: []string{"tool.call", "tool.list"},
		Addresses: []string{"10.0.0.0/8"}, CreatedAt: timestamppb.New(Now), ExpiresAt: timestamppb.New(Now.Add(90 * 24 * time.Hour)),
		MadeWithDeviceId: "01DEVICE000000000000000000",
	}
}

func (s fakeTokens) ListTokens(_ context.Context, req *palyrav1.ListTokensRequest) (*palyrav1.ListTokensResponse, error) {
	res := &palyrav1.ListTokensResponse{}
	if with := req.GetMadeWithDeviceId(); with != "" && with != someToken().GetMadeWithDeviceId() {
		return res, nil
	}
	if req.GetAll() {
		res.Tokens = append(res.Tokens, revokedToken())
	}
	res.Tokens = append(res.Tokens, someToken())
	return res, nil
}

// revokedToken is the one token after its revocation.
func revokedToken() *palyrav1.Token {
	gone := someToken()
	gone.RevokedAt, gone.RevokedBy = timestamppb.New(Now), "user:ada"
	return gone
}

func (s fakeTokens) CreateToken(_ context.Context, req *palyrav1.CreateTokenRequest) (*palyrav1.CreateTokenResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.CreatedTokens = append(s.f.CreatedTokens, req)
	made := someToken()
	made.Name, made.Scopes, made.Addresses = req.GetName(), req.GetScopes(), req.GetAddresses()
	made.ExpiresAt = timestamppb.New(Now.Add(req.GetLife().AsDuration()))
	if made.Principal = req.GetPrincipal(); made.Principal == "" {
		made.Principal = "user:ada"
	}
	return &palyrav1.CreateTokenResponse{Token: made, Text: TokenText}, nil
}

func (s fakeTokens) RevokeToken(_ context.Context, req *palyrav1.RevokeTokenRequest) (*palyrav1.RevokeTokenResponse, error) {
	if !strings.EqualFold(req.GetTokenId(), TokenID) {
		return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "token "+req.GetTokenId()+" not found", nil)
	}
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.RevokedTokens = append(s.f.RevokedTokens, req.GetTokenId())
	return &palyrav1.RevokeTokenResponse{Token: revokedToken()}, nil
}
