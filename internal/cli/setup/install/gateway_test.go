package install

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/cli/client"
)

// gatewayFake is a gateway with members, tokens and installations.
type gatewayFake struct {
	palyrav1connect.UnimplementedTokenServiceHandler
	palyrav1connect.UnimplementedAccessServiceHandler
	palyrav1connect.UnimplementedIdentityServiceHandler
	palyrav1connect.UnimplementedStatusServiceHandler
	palyrav1connect.UnimplementedInstallServiceHandler

	members []*palyrav1.Member
	tokens  []*palyrav1.Token
	watched map[string]*palyrav1.RegisterInstalledRequest
	devices int
}

func newGateway(t *testing.T) (*gatewayFake, *client.Gateway) {
	f := &gatewayFake{watched: make(map[string]*palyrav1.RegisterInstalledRequest)}
	mux := http.NewServeMux()
	mux.Handle(palyrav1connect.NewTokenServiceHandler(f))
	mux.Handle(palyrav1connect.NewAccessServiceHandler(f))
	mux.Handle(palyrav1connect.NewIdentityServiceHandler(f))
	mux.Handle(palyrav1connect.NewStatusServiceHandler(f))
	mux.Handle(palyrav1connect.NewInstallServiceHandler(f))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return f, &client.Gateway{
		Tokens: palyrav1connect.NewTokenServiceClient(s.Client(), s.URL), Access: palyrav1connect.NewAccessServiceClient(s.Client(), s.URL),
		Identity: palyrav1connect.NewIdentityServiceClient(s.Client(), s.URL), Status: palyrav1connect.NewStatusServiceClient(s.Client(), s.URL),
		Installed: palyrav1connect.NewInstallServiceClient(s.Client(), s.URL),
	}
}

func (f *gatewayFake) GetStatus(context.Context, *palyrav1.GetStatusRequest) (*palyrav1.GetStatusResponse, error) {
	return &palyrav1.GetStatusResponse{Caller: &palyrav1.Identity{Principal: "user:ada"}}, nil
}

func (f *gatewayFake) ListMembers(context.Context, *palyrav1.ListMembersRequest) (*palyrav1.ListMembersResponse, error) {
	return &palyrav1.ListMembersResponse{Members: f.members}, nil
}

func (f *gatewayFake) AddMember(_ context.Context, req *palyrav1.AddMemberRequest) (*palyrav1.AddMemberResponse, error) {
	m := &palyrav1.Member{Principal: "agent:" + req.GetName(), Owner: req.GetOwner(), Roles: req.GetRoles()}
	f.members, f.devices = append(f.members, m), f.devices+1
	return &palyrav1.AddMemberResponse{Member: m, DeviceId: "01DEVICE000000000000000001"}, nil
}

func (f *gatewayFake) RevokeDevice(context.Context, *palyrav1.RevokeDeviceRequest) (*palyrav1.RevokeDeviceResponse, error) {
	f.devices--
	return &palyrav1.RevokeDeviceResponse{}, nil
}

func (f *gatewayFake) CreateToken(_ context.Context, req *palyrav1.CreateTokenRequest) (*palyrav1.CreateTokenResponse, error) {
	made := &palyrav1.Token{TokenId: fmt.Sprintf("01T0KEN%019d", len(f.tokens)), Name: req.GetName(), Principal: req.GetPrincipal(), Scopes: req.GetScopes(), Addresses: req.GetAddresses()}
	f.tokens = append(f.tokens, made)
	return &palyrav1.CreateTokenResponse{Token: made, Text: "pal_" + made.GetTokenId()}, nil
}

func (f *gatewayFake) ListTokens(context.Context, *palyrav1.ListTokensRequest) (*palyrav1.ListTokensResponse, error) {
	return &palyrav1.ListTokensResponse{Tokens: f.tokens}, nil
}

func (f *gatewayFake) RevokeToken(_ context.Context, req *palyrav1.RevokeTokenRequest) (*palyrav1.RevokeTokenResponse, error) {
	f.tokens = slices.DeleteFunc(f.tokens, func(t *palyrav1.Token) bool { return t.GetTokenId() == req.GetTokenId() })
	return &palyrav1.RevokeTokenResponse{}, nil
}

func (f *gatewayFake) RegisterInstalled(_ context.Context, req *palyrav1.RegisterInstalledRequest) (*palyrav1.RegisterInstalledResponse, error) {
	f.watched[req.GetInstallationId()] = req
	return &palyrav1.RegisterInstalledResponse{}, nil
}

func (f *gatewayFake) RemoveInstalled(_ context.Context, req *palyrav1.RemoveInstalledRequest) (*palyrav1.RemoveInstalledResponse, error) {
	delete(f.watched, req.GetInstallationId())
	return &palyrav1.RemoveInstalledResponse{}, nil
}
