package clitest

import (
	"net/url"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
)

// UpstreamName is the name of the one upstream server.
const UpstreamName = "github"

func someUpstream() *palyrav1.Upstream {
	return &palyrav1.Upstream{
		Server: &palyrav1.UpstreamServer{
			Name: UpstreamName, Command: []string{"github-mcp-server", "stdio"}, Hosts: []string{"api.github.com:443"}, Secrets: []string{"global/github"}, Shared: true,
		},
		Digest: "sha256:aa", AddedBy: "user:ada", AddedAt: ago(48 * time.Hour), SeenAt: ago(time.Hour),
		ApprovedBy: "user:ada", ApprovedAt: ago(48 * time.Hour), Implementation: "github-mcp-server 1.2", Protocol: "2025-11-25",
		Tools: 12, Suspended: 1, Pending: 1, PendingDigest: "sha256:bb", Instances: 2, Calls: 1, LeftOut: []string{"tool odd name: its name"},
		Unchecked: []string{"tool find: pattern at /properties/q: the pattern is of a dialect that cannot be checked here"},
	}
}

func serveUpstreams(f *Gateway) {
	approved := someUpstream()
	approved.Pending, approved.PendingDigest, approved.Suspended = 0, "", 0
	added := proto.CloneOf(approved)
	added.Instances, added.Calls, added.LeftOut, added.Unchecked = 0, 0, nil, nil
	f.reply(
		&palyrav1.ListUpstreamsResponse{Upstreams: []*palyrav1.Upstream{someUpstream()}},
		&palyrav1.AddUpstreamResponse{Upstream: added},
		&palyrav1.ResolvePackageResponse{
			Resolution: "sha256:ee", Version: "1.2.3", Integrity: "sha512-ff", Registry: "https://registry.npmjs.org",
			Hosts: []string{"registry.npmjs.org:443"}, Packages: 3, Scripts: []string{"esbuild 0.25.0"},
		},
	)
	f.replyAbout(UpstreamName, "the upstream server %s does not exist",
		&palyrav1.GetUpstreamResponse{
			Upstream:    someUpstream(),
			Definitions: []*palyrav1.UpstreamDefinition{{Kind: "tool", Name: "create_issue", Digest: "sha256:cc", DefinitionJson: []byte(`{"name":"create_issue"}`)}, {Kind: "instructions", Digest: "sha256:dd"}},
			Changes:     []*palyrav1.UpstreamChange{{Kind: "tool", Name: "create_issue", Change: "changed", WasJson: []byte(`{}`), IsJson: []byte(`{"a":1}`)}},
			Diff:        "--- a/tool/create_issue\n+++ b/tool/create_issue\n@@ -1 +1 @@\n-{}\n+{\"description\": \"evil\x1b[2J\"}\n",
		},
		&palyrav1.UpdateUpstreamResponse{Upstream: someUpstream()},
		&palyrav1.RemoveUpstreamResponse{},
		&palyrav1.RefreshUpstreamResponse{Upstream: someUpstream()},
		&palyrav1.ApproveUpstreamResponse{Upstream: approved},
		&palyrav1.BeginUpstreamLoginResponse{LoginId: "login-1", ExpiresAt: timestamppb.New(time.Now().Add(time.Minute)), Issuer: "https://id.test"},
		&palyrav1.EndUpstreamLoginResponse{},
	)
	edit(f, func(req *palyrav1.AddUpstreamRequest, res *palyrav1.AddUpstreamResponse) {
		res.Upstream.Server = req.GetServer()
	})
	edit(f, func(req *palyrav1.ResolvePackageRequest, res *palyrav1.ResolvePackageResponse) {
		res.Ecosystem, res.Name = req.GetEcosystem(), req.GetName()
	})
	edit(f, func(req *palyrav1.BeginUpstreamLoginRequest, res *palyrav1.BeginUpstreamLoginResponse) {
		res.AuthorizationUrl = "https://id.test/authorize?" + url.Values{"redirect_uri": {req.GetRedirectUri()}, "state": {LoginState}}.Encode()
	})
	on(f, func(req *palyrav1.CompleteUpstreamLoginRequest) (*palyrav1.CompleteUpstreamLoginResponse, error) {
		if req.GetLoginId() != "login-1" || req.GetState() != LoginState || req.GetCode() != LoginCode {
			return nil, errLoginRefused
		}
		return &palyrav1.CompleteUpstreamLoginResponse{Issuer: "https://id.test", Scope: "tools", Secret: "user:alice/mcp-login.github", Renews: true}, nil //nolint:gosec // a reference
	})
}
