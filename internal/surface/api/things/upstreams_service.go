package things

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/upstream/oauth"
)

// UpstreamManager manages the upstream servers.
type UpstreamManager interface {
	UpstreamUpdater
	List() []declared.State
	Show(name string) (declared.State, error)
	// Check refuses a declaration that cannot be added. It returns the declaration with the known
	// data of its package.
	Check(s declared.Server) (declared.Server, error)
	Add(ctx context.Context, by access.Caller, s declared.Server) (declared.State, error)
	Remove(ctx context.Context, by access.Caller, name string) error
	Refresh(ctx context.Context, by access.Caller, name string) (declared.State, error)
	Approve(ctx context.Context, by access.Caller, name, digest string) (declared.State, error)
}

// UpstreamUpdater declares servers again from another installation of their package.
type UpstreamUpdater interface {
	// Updated returns a server as Update would declare it: from the installation at prefix.
	Updated(name, prefix string) (declared.Server, error)
	Update(ctx context.Context, by access.Caller, name, prefix string) (declared.State, error)
}

// Packages are the packages that contain servers. It is implemented by packages.Service.
type Packages interface {
	Resolve(ctx context.Context, by access.Caller, w declared.PackageRequest) (declared.Resolution, error)
}

// Logins are the gateway's own logins at servers. It is implemented by oauth.Service.
type Logins interface {
	Begin(ctx context.Context, by access.Caller, server declared.Server, redirect string) (oauth.PendingLogin, error)
	Complete(ctx context.Context, by access.Caller, a oauth.Answer, find func(name string) (declared.Server, error)) (oauth.CompletedLogin, error)
	Logout(ctx context.Context, by access.Caller, server declared.Server) error
}

// UpstreamService implements the McpService of the API. All fields are required.
type UpstreamService struct {
	Manager  UpstreamManager
	Logins   Logins
	Packages Packages
	// Caller returns the caller of a request.
	Caller func(context.Context) access.Caller
}

// ListUpstreams lists the servers.
func (s *UpstreamService) ListUpstreams(context.Context, *palyrav1.ListUpstreamsRequest) (*palyrav1.ListUpstreamsResponse, error) {
	res := &palyrav1.ListUpstreamsResponse{}
	for _, state := range s.Manager.List() {
		res.Upstreams = append(res.Upstreams, upstreamMessage(state))
	}
	return res, nil
}

// GetUpstream returns one server.
func (s *UpstreamService) GetUpstream(_ context.Context, req *palyrav1.GetUpstreamRequest) (*palyrav1.GetUpstreamResponse, error) {
	state, err := s.Manager.Show(req.GetName())
	if err != nil {
		return nil, err
	}
	res := &palyrav1.GetUpstreamResponse{Upstream: upstreamMessage(state)}
	for _, d := range state.Approved.Definitions {
		res.Definitions = append(res.Definitions, &palyrav1.UpstreamDefinition{Kind: string(d.Kind), Name: d.Name, Digest: d.Digest, DefinitionJson: d.Text})
	}
	for _, c := range state.Changes {
		res.Changes = append(res.Changes, &palyrav1.UpstreamChange{Kind: string(c.Kind), Name: c.Name, Change: c.Word(), WasJson: c.Was, IsJson: c.Is})
	}
	res.Diff = Diff(state.Changes)
	return res, nil
}

// AddUpstream adds a server.
func (s *UpstreamService) AddUpstream(ctx context.Context, req *palyrav1.AddUpstreamRequest) (*palyrav1.AddUpstreamResponse, error) {
	server, err := serverOf(req.GetServer())
	if err != nil {
		return nil, err
	}
	state, err := s.Manager.Add(ctx, s.Caller(ctx), server)
	if err != nil {
		return nil, err
	}
	return &palyrav1.AddUpstreamResponse{Upstream: upstreamMessage(state)}, nil
}

// RemoveUpstream removes a server.
func (s *UpstreamService) RemoveUpstream(ctx context.Context, req *palyrav1.RemoveUpstreamRequest) (*palyrav1.RemoveUpstreamResponse, error) {
	return &palyrav1.RemoveUpstreamResponse{}, s.Manager.Remove(ctx, s.Caller(ctx), req.GetName())
}

// RefreshUpstream queries a server again.
func (s *UpstreamService) RefreshUpstream(ctx context.Context, req *palyrav1.RefreshUpstreamRequest) (*palyrav1.RefreshUpstreamResponse, error) {
	state, err := s.Manager.Refresh(ctx, s.Caller(ctx), req.GetName())
	if err != nil {
		return nil, err
	}
	return &palyrav1.RefreshUpstreamResponse{Upstream: upstreamMessage(state)}, nil
}

// ApproveUpstream approves the current definitions of a server.
func (s *UpstreamService) ApproveUpstream(ctx context.Context, req *palyrav1.ApproveUpstreamRequest) (*palyrav1.ApproveUpstreamResponse, error) {
	state, err := s.Manager.Approve(ctx, s.Caller(ctx), req.GetName(), req.GetPendingDigest())
	if err != nil {
		return nil, err
	}
	return &palyrav1.ApproveUpstreamResponse{Upstream: upstreamMessage(state)}, nil
}

// ResolvePackage pins a package.
func (s *UpstreamService) ResolvePackage(ctx context.Context, req *palyrav1.ResolvePackageRequest) (*palyrav1.ResolvePackageResponse, error) {
	r, err := s.Packages.Resolve(ctx, s.Caller(ctx), declared.PackageRequest{
		Server: req.GetServer(), Ecosystem: declared.Ecosystem(req.GetEcosystem()), Name: req.GetName(), Version: req.GetVersion(), Registry: req.GetRegistry(),
		Login: declared.RegistryLogin{Secret: strings.TrimPrefix(req.GetRegistrySecret(), scheme), User: req.GetRegistryUser()},
	})
	if err != nil {
		return nil, err
	}
	digest, err := r.Digest()
	return &palyrav1.ResolvePackageResponse{
		Resolution: digest, Ecosystem: string(r.Ecosystem), Name: r.Name, Version: r.Version, Integrity: r.Integrity, Registry: r.Registry,
		Hosts: r.Hosts, Packages: count(len(r.Parts)), Scripts: r.Scripts,
	}, err
}

// UpdateUpstream moves a server to another installation prefix.
func (s *UpstreamService) UpdateUpstream(ctx context.Context, req *palyrav1.UpdateUpstreamRequest) (*palyrav1.UpdateUpstreamResponse, error) {
	state, err := s.Manager.Update(ctx, s.Caller(ctx), req.GetName(), req.GetPrefix())
	if err != nil {
		return nil, err
	}
	return &palyrav1.UpdateUpstreamResponse{Upstream: upstreamMessage(state)}, nil
}

// BeginUpstreamLogin starts a login.
func (s *UpstreamService) BeginUpstreamLogin(ctx context.Context, req *palyrav1.BeginUpstreamLoginRequest) (*palyrav1.BeginUpstreamLoginResponse, error) {
	server, err := s.server(req.GetName())
	if err != nil {
		return nil, err
	}
	begun, err := s.Logins.Begin(ctx, s.Caller(ctx), server, req.GetRedirectUri())
	if err != nil {
		return nil, err
	}
	return &palyrav1.BeginUpstreamLoginResponse{
		LoginId: begun.ID, ExpiresAt: moment(begun.ExpiresAt), AuthorizationUrl: begun.AuthorizationURL, Issuer: begun.Issuer,
	}, nil
}

// CompleteUpstreamLogin completes a login.
func (s *UpstreamService) CompleteUpstreamLogin(ctx context.Context, req *palyrav1.CompleteUpstreamLoginRequest) (*palyrav1.CompleteUpstreamLoginResponse, error) {
	done, err := s.Logins.Complete(ctx, s.Caller(ctx), oauth.Answer{ID: req.GetLoginId(), State: req.GetState(), Code: req.GetCode(), Issuer: req.GetIssuer()}, s.server)
	if err != nil {
		return nil, err
	}
	return &palyrav1.CompleteUpstreamLoginResponse{Issuer: done.Issuer, Scope: done.Scope, Secret: done.Ref.Name(), ExpiresAt: moment(done.ExpiresAt), Renews: done.Renews}, nil
}

// EndUpstreamLogin removes a login.
func (s *UpstreamService) EndUpstreamLogin(ctx context.Context, req *palyrav1.EndUpstreamLoginRequest) (*palyrav1.EndUpstreamLoginResponse, error) {
	server, err := s.server(req.GetName())
	if err != nil {
		return nil, err
	}
	return &palyrav1.EndUpstreamLoginResponse{}, s.Logins.Logout(ctx, s.Caller(ctx), server)
}

// server returns the current declaration of a server.
func (s *UpstreamService) server(name string) (declared.Server, error) {
	state, err := s.Manager.Show(name)
	return state.Server, err
}

// Diff returns a unified diff of definitions.
func Diff(changes []declared.Change) string {
	var b strings.Builder
	for _, c := range changes {
		name := string(c.Kind) + "/" + c.Name
		_, hunks, _ := bytes.Cut(diff.Diff("a/"+name, indented(c.Was), "b/"+name, indented(c.Is)), []byte("\n"))
		b.Write(hunks)
	}
	return b.String()
}

func indented(text json.RawMessage) []byte {
	var b bytes.Buffer
	if text == nil || json.Indent(&b, text, "", "  ") != nil {
		return nil
	}
	return append(b.Bytes(), '\n')
}

func serverOf(m *palyrav1.UpstreamServer) (declared.Server, error) {
	s := declared.Server{
		Name: m.GetName(), Command: m.GetCommand(), Workspace: m.GetWorkspace(), Write: m.GetWrite(), Hosts: m.GetHosts(),
		URL: m.GetUrl(), Shared: m.GetShared(), Trusted: m.GetTrusted(), Meta: m.GetMeta(),
	}
	for _, ref := range m.GetSecrets() {
		s.Secrets = append(s.Secrets, strings.TrimPrefix(ref, scheme))
	}
	for _, ref := range m.GetInject() {
		s.Inject = append(s.Inject, strings.TrimPrefix(ref, scheme))
	}
	for _, pair := range m.GetEnv() {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return s, reason.Errorf(reason.InvalidInput, "the variable %q is not name=value", name)
		}
		if _, twice := s.Env[name]; twice {
			return s, reason.Errorf(reason.InvalidInput, "the variable %s occurs twice", name)
		}
		if s.Env == nil {
			s.Env = map[string]string{}
		}
		s.Env[name] = value
	}
	for _, h := range m.GetHeaders() {
		s.Headers = append(s.Headers, declared.Header{Name: h.GetName(), Scheme: h.GetScheme(), Secret: strings.TrimPrefix(h.GetSecret(), scheme)})
	}
	if p := m.GetPackage(); p != nil {
		s.Package = &declared.Package{Prefix: p.GetPrefix()}
	}
	if o := m.GetOauth(); o != nil {
		s.OAuth = &declared.OAuth{
			Issuer: o.GetIssuer(), ClientID: o.GetClientId(), ClientSecret: strings.TrimPrefix(o.GetClientSecret(), scheme), Scopes: o.GetScopes(), Shared: o.GetShared(),
		}
	}
	return s, nil
}

// scheme may precede a vault reference.
const scheme = "vault://"

func upstreamMessage(s declared.State) *palyrav1.Upstream {
	m := &palyrav1.Upstream{
		Server: serverMessage(s.Server), Digest: s.Digest, AddedBy: s.AddedBy, AddedAt: moment(s.AddedAt), SeenAt: moment(s.SeenAt),
		ApprovedBy: s.ApprovedBy, ApprovedAt: moment(s.ApprovedAt), Implementation: s.Seen.Implementation, Protocol: s.Seen.Protocol,
		Pending: count(len(s.Changes)), Problem: s.Problem, Remedy: s.Remedy, Instances: count(s.Instances), Calls: count(s.Calls), LeftOut: s.Seen.LeftOut, Unchecked: s.Seen.Unchecked,
		Suspended: count(len(s.Suspended())),
	}
	for _, d := range s.Approved.Definitions {
		if d.Kind == declared.KindTool {
			m.Tools++
		}
	}
	if len(s.Changes) > 0 {
		m.PendingDigest = s.Seen.Digest()
	}
	return m
}

func count(n int) int32 { return int32(n) } //#nosec G115 -- bounded far below

func serverMessage(s declared.Server) *palyrav1.UpstreamServer {
	m := &palyrav1.UpstreamServer{
		Name: s.Name, Command: s.Command, Env: s.Environment(), Workspace: s.Workspace, Write: s.Write, Hosts: s.Hosts, Secrets: s.Secrets, Inject: s.Inject,
		Url: s.URL, Shared: s.Shared, Trusted: s.Trusted, Meta: s.Meta,
	}
	for _, h := range s.Headers {
		m.Headers = append(m.Headers, &palyrav1.UpstreamHeader{Name: h.Name, Scheme: h.Scheme, Secret: h.Secret})
	}
	if p := s.Package; p != nil {
		m.Package = &palyrav1.UpstreamPackage{
			Ecosystem: string(p.Ecosystem), Name: p.Name, Version: p.Version, Integrity: p.Integrity, Registry: p.Registry, Prefix: p.Prefix,
			RegistrySecret: p.Login.Secret, RegistryUser: p.Login.User,
		}
	}
	if o := s.OAuth; o != nil {
		m.Oauth = &palyrav1.UpstreamOAuth{Issuer: o.Issuer, ClientId: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes, Shared: o.Shared}
	}
	return m
}
