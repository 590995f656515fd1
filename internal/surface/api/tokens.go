package api

import (
	"context"
	"net/netip"
	"slices"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/identity/token"
)

// Tokens stores API tokens. It is implemented by token.Service.
type Tokens interface {
	// Authenticate maps a token to its caller.
	Authenticate(shown string, from netip.Addr) (access.Caller, error)
	Create(ctx context.Context, creator access.Principal, r token.Request) (made token.Token, text string, err error)
	List() []token.Token
	// Of returns the tokens of a principal.
	Of(p access.Principal) []token.Token
	Revoke(ctx context.Context, actor access.Principal, id string, others bool) (token.Token, error)
}

type tokens struct {
	kept   Tokens
	engine *policy.Engine
}

// CreateToken creates a token whose scopes are limited to the scopes of the caller and the member
// that it acts as.
func (s *tokens) CreateToken(ctx context.Context, req *palyrav1.CreateTokenRequest) (*palyrav1.CreateTokenResponse, error) {
	holder, err := principalOf(req.GetPrincipal())
	if err != nil {
		return nil, err
	}
	r := token.Request{Name: req.GetName(), For: holder, Life: req.GetLife().AsDuration()}
	for _, name := range req.GetScopes() {
		r.Scopes = append(r.Scopes, access.Permission(name))
	}
	for _, text := range req.GetAddresses() {
		prefix, err := addressRange(text)
		if err != nil {
			return nil, err
		}
		r.Addresses = append(r.Addresses, prefix)
	}
	caller := callerOf(ctx)
	r.Device = caller.DeviceID
	if err := s.mayGive(caller, r); err != nil {
		return nil, err
	}
	made, text, err := s.kept.Create(ctx, caller.Principal, r)
	if err != nil {
		return nil, err
	}
	return &palyrav1.CreateTokenResponse{Token: tokenMessage(made), Text: text}, nil
}

// mayGive checks that policy permits each scope to the caller and to the member that the token acts
// as. A scope that they lose later is lost for the token as well.
func (s *tokens) mayGive(caller access.Caller, r token.Request) error {
	callers := []access.Caller{caller}
	if !r.For.IsZero() && r.For != caller.Principal {
		callers = append(callers, access.Caller{Principal: r.For, OnBehalfOf: caller.Principal, Surface: caller.Surface})
	}
	for _, scope := range r.Scopes {
		if !slices.Contains(access.Permissions, scope) || slices.Contains(access.NeverByToken, scope) {
			continue // token.Service rejects it with the cause
		}
		for _, who := range callers {
			if err := s.engine.Current().Access().Permit(policy.AccessRequest{Caller: who, Permission: scope}); err != nil {
				return reason.Errorf(reason.PermissionDenied, "creating a token with the scope %s: %s does not have this permission", scope, who.Principal).
					WithField("permission", string(scope))
			}
		}
	}
	return nil
}

// addressRange parses "10.0.0.0/8", or a single address.
func addressRange(text string) (netip.Prefix, error) {
	if one, err := netip.ParseAddr(text); err == nil && one.Zone() == "" {
		one = one.Unmap()
		return netip.PrefixFrom(one, one.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, reason.Errorf(reason.InvalidInput, "%q is not a valid address range: use a form like 10.0.0.0/8, 192.0.2.7 or fd00::/8", text)
	}
	if prefix.Addr().Is4In6() || prefix != prefix.Masked() {
		return netip.Prefix{}, reason.Errorf(reason.InvalidInput, "%q is not a valid address range: did you mean %s?", text, prefix.Masked())
	}
	return prefix, nil
}

// ListTokens returns tokens, newest first.
func (s *tokens) ListTokens(ctx context.Context, req *palyrav1.ListTokensRequest) (*palyrav1.ListTokensResponse, error) {
	caller := callerOf(ctx)
	list := s.kept.Of(caller.Principal)
	if may(s.engine, caller, access.PermAccessRead) {
		list = s.kept.List()
	}
	res := &palyrav1.ListTokensResponse{}
	for _, t := range slices.Backward(list) {
		if with := req.GetMadeWithDeviceId(); with != "" && t.Device != with {
			continue
		}
		if ended := t.Revoked() || !time.Now().Before(t.ExpiresAt); req.GetAll() || !ended {
			res.Tokens = append(res.Tokens, tokenMessage(t))
		}
	}
	return res, nil
}

// RevokeToken revokes a token.
func (s *tokens) RevokeToken(ctx context.Context, req *palyrav1.RevokeTokenRequest) (*palyrav1.RevokeTokenResponse, error) {
	caller := callerOf(ctx)
	gone, err := s.kept.Revoke(ctx, caller.Principal, req.GetTokenId(), may(s.engine, caller, access.PermAccessWrite))
	if err != nil {
		return nil, err
	}
	return &palyrav1.RevokeTokenResponse{Token: tokenMessage(gone)}, nil
}

func tokenMessage(t token.Token) *palyrav1.Token {
	m := &palyrav1.Token{
		TokenId: t.ID, Name: t.Name, Principal: t.Principal.String(), CreatedBy: t.CreatedBy.String(), CreatedAt: timeMessage(t.CreatedAt),
		ExpiresAt: timeMessage(t.ExpiresAt), LastUsedAt: timeMessage(t.LastUsedAt), RevokedAt: timeMessage(t.RevokedAt), RevokedBy: t.RevokedBy.String(),
		MadeWithDeviceId: t.Device,
	}
	for _, p := range t.Scopes {
		m.Scopes = append(m.Scopes, string(p))
	}
	for _, p := range t.Addresses {
		m.Addresses = append(m.Addresses, p.String())
	}
	return m
}
