package clitest

import (
	"context"
	"net/url"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
)

// UpstreamName is the name of the one upstream server.
const UpstreamName = "github"

type fakeUpstreams struct{ f *Gateway }

func someUpstream() *palyrav1.Upstream {
	return &palyrav1.Upstream{
		Server: &palyrav1.UpstreamServer{
			Name: UpstreamName, Command: []string{"github-mcp-server", "stdio"}, Hosts: []string{"api.github.com:443"}, Secrets: []string{"global/github"}, Shared: true,
		},
		Digest: "sha256:aa", AddedBy: "user:ada", AddedAt: timestamppb.New(Now.Add(-48 * time.Hour)), SeenAt: timestamppb.New(Now.Add(-time.Hour)),
		ApprovedBy: "user:ada", ApprovedAt: timestamppb.New(Now.Add(-48 * time.Hour)), Implementation: "github-mcp-server 1.2", Protocol: "2025-11-25",
		Tools: 12, Suspended: 1, Pending: 1, PendingDigest: "sha256:bb", Instances: 2, Calls: 1, LeftOut: []string{"tool odd name: its name"},
		Unchecked: []string{"tool find: pattern at /properties/q: the pattern is of a dialect that cannot be checked here"},
	}
}

func noUpstream(name string) error {
	if name == UpstreamName {
		return nil
	}
	return GatewayError(connect.CodeNotFound, reason.NotFound, "the upstream server "+name+" does not exist", nil)
}

func (fakeUpstreams) ListUpstreams(context.Context, *palyrav1.ListUpstreamsRequest) (*palyrav1.ListUpstreamsResponse, error) {
	return &palyrav1.ListUpstreamsResponse{Upstreams: []*palyrav1.Upstream{someUpstream()}}, nil
}

func (fakeUpstreams) GetUpstream(_ context.Context, req *palyrav1.GetUpstreamRequest) (*palyrav1.GetUpstreamResponse, error) {
	return &palyrav1.GetUpstreamResponse{
		Upstream:    someUpstream(),
		Definitions: []*palyrav1.UpstreamDefinition{{Kind: "tool", Name: "create_issue", Digest: "sha256:cc", DefinitionJson: []byte(`{"name":"create_issue"}`)}, {Kind: "instructions", Digest: "sha256:dd"}},
		Changes:     []*palyrav1.UpstreamChange{{Kind: "tool", Name: "create_issue", Change: "changed", WasJson: []byte(`{}`), IsJson: []byte(`{"a":1}`)}},
		Diff:        "--- a/tool/create_issue\n+++ b/tool/create_issue\n@@ -1 +1 @@\n-{}\n+{\"description\": \"evil\x1b[2J\"}\n",
	}, noUpstream(req.GetName())
}

func (s fakeUpstreams) AddUpstream(_ context.Context, req *palyrav1.AddUpstreamRequest) (*palyrav1.AddUpstreamResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.AddedUpstreams = append(s.f.AddedUpstreams, req.GetServer())
	u := someUpstream()
	u.Server, u.Pending, u.PendingDigest, u.Suspended, u.Instances, u.Calls, u.LeftOut, u.Unchecked = req.GetServer(), 0, "", 0, 0, 0, nil, nil
	return &palyrav1.AddUpstreamResponse{Upstream: u}, nil
}

func (fakeUpstreams) ResolvePackage(_ context.Context, req *palyrav1.ResolvePackageRequest) (*palyrav1.ResolvePackageResponse, error) {
	return &palyrav1.ResolvePackageResponse{
		Resolution: "sha256:ee", Ecosystem: req.GetEcosystem(), Name: req.GetName(), Version: "1.2.3", Integrity: "sha512-ff", Registry: "https://registry.npmjs.org",
		Hosts: []string{"registry.npmjs.org:443"}, Packages: 3, Scripts: []string{"esbuild 0.25.0"},
	}, nil
}

func (fakeUpstreams) UpdateUpstream(_ context.Context, req *palyrav1.UpdateUpstreamRequest) (*palyrav1.UpdateUpstreamResponse, error) {
	return &palyrav1.UpdateUpstreamResponse{Upstream: someUpstream()}, noUpstream(req.GetName())
}

func (fakeUpstreams) RemoveUpstream(_ context.Context, req *palyrav1.RemoveUpstreamRequest) (*palyrav1.RemoveUpstreamResponse, error) {
	return &palyrav1.RemoveUpstreamResponse{}, noUpstream(req.GetName())
}

func (fakeUpstreams) RefreshUpstream(_ context.Context, req *palyrav1.RefreshUpstreamRequest) (*palyrav1.RefreshUpstreamResponse, error) {
	return &palyrav1.RefreshUpstreamResponse{Upstream: someUpstream()}, noUpstream(req.GetName())
}

func (s fakeUpstreams) ApproveUpstream(_ context.Context, req *palyrav1.ApproveUpstreamRequest) (*palyrav1.ApproveUpstreamResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	s.f.ApprovedUpstreams = append(s.f.ApprovedUpstreams, req)
	u := someUpstream()
	u.Pending, u.PendingDigest, u.Suspended = 0, "", 0
	return &palyrav1.ApproveUpstreamResponse{Upstream: u}, noUpstream(req.GetName())
}

func (s fakeUpstreams) BeginUpstreamLogin(_ context.Context, req *palyrav1.BeginUpstreamLoginRequest) (*palyrav1.BeginUpstreamLoginResponse, error) {
	page := "https://id.test/authorize?" + url.Values{"redirect_uri": {req.GetRedirectUri()}, "state": {LoginState}}.Encode()
	return &palyrav1.BeginUpstreamLoginResponse{
		LoginId: "login-1", ExpiresAt: timestamppb.New(time.Now().Add(time.Minute)), AuthorizationUrl: page, Issuer: "https://id.test",
	}, noUpstream(req.GetName())
}

func (s fakeUpstreams) CompleteUpstreamLogin(_ context.Context, req *palyrav1.CompleteUpstreamLoginRequest) (*palyrav1.CompleteUpstreamLoginResponse, error) {
	if req.GetLoginId() != "login-1" || req.GetState() != LoginState || req.GetCode() != LoginCode {
		return nil, GatewayError(connect.CodePermissionDenied, reason.LoginRefused, "the answer does not belong to this login", nil)
	}
	return &palyrav1.CompleteUpstreamLoginResponse{Issuer: "https://id.test", Scope: "tools", Secret: "user:alice/mcp-login.github", Renews: true}, nil //nolint:gosec // a reference
}

func (fakeUpstreams) EndUpstreamLogin(_ context.Context, req *palyrav1.EndUpstreamLoginRequest) (*palyrav1.EndUpstreamLoginResponse, error) {
	return &palyrav1.EndUpstreamLoginResponse{}, noUpstream(req.GetName())
}
