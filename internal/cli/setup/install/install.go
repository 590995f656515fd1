package install

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/agent/files"
	"palyra/internal/cli/client"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// hookScope is the only permission of a hook's token: the hook may propose and report calls,
// and end sessions.
const hookScope = "hook.report"

// tokenLife is the lifetime of a hook's token, which is the maximum.
const tokenLife = 366 * 24 * time.Hour

// Installer installs hooks for one user.
type Installer struct {
	Site
	Book *Book
	// Gateway receives installed and removed hooks; nil if it is unreachable, in which case hooks
	// can only be removed.
	Gateway *client.Gateway
}

// Installed is the result of an installation.
type Installed struct {
	Hook  Hook
	Files []string
	// Token is the text of a token that is not stored in a file.
	Token string
}

// Install installs a hook, and replaces an earlier installation of it.
func (i *Installer) Install(ctx context.Context, w Wanted) (*Installed, error) {
	if i.Gateway == nil {
		return nil, reason.Errorf(reason.NotConnected, "the hook needs a token of the gateway, which does not answer").WithRemedy("Start palyrad: `palyra up`.")
	}
	p, err := i.Plan(ctx, w, "")
	if err != nil {
		return nil, err
	}
	h := p.Hook
	h.Installation = ulid.Make().String()
	if old := i.Book.Hook(h.Agent, h.Scope, h.Project); old != nil {
		h.Installation, h.OldTokens = old.Installation, old.OldTokens
		if old.Token != "" {
			h.OldTokens = append(h.OldTokens, old.Token)
		}
	}
	if h.Token = i.sharedToken(h); h.Token == "" {
		h.Token = "hook " + string(h.Agent) + " " + ulid.Make().String()
	} else {
		p.keepToken()
	}
	h.OldTokens = slices.DeleteFunc(h.OldTokens, func(name string) bool { return name == h.Token })
	if err := i.Book.AddHook(h); err != nil {
		return nil, err
	}
	out := &Installed{Hook: h}
	if p.Token {
		text, err := i.makeToken(ctx, h)
		if err != nil {
			return nil, err
		}
		if p.InFile {
			if p, err = i.Plan(ctx, w, text); err != nil {
				return nil, err
			}
		} else {
			out.Token = text
		}
	}
	for _, e := range p.Edits {
		if err := i.Book.Apply(e); err != nil {
			return nil, err
		}
		out.Files = append(out.Files, e.File.Path)
	}
	if err := i.register(ctx, h, p); err != nil {
		return nil, err
	}
	// The previous tokens are revoked, unless other hooks use them.
	old := slices.DeleteFunc(slices.Clone(h.OldTokens), func(name string) bool {
		return i.Book.shares(Hook{Agent: h.Agent, Scope: h.Scope, Project: h.Project, Token: name})
	})
	if h.Transport == TransportHTTP && !slices.ContainsFunc(i.Book.Hooks, func(o Hook) bool { return o.Agent == h.Agent && o.Transport == TransportCommand }) {
		if _, err := i.Book.Undo(tokenOwner(h.Agent)); err != nil {
			return nil, err
		}
	}
	if err := i.revoke(ctx, old...); err != nil {
		return nil, err
	}
	h.OldTokens = nil
	return out, i.Book.AddHook(h)
}

// sharedToken returns the existing token of an agent's command hooks; "" for none. It is valid
// while its file exists.
func (i *Installer) sharedToken(h Hook) string {
	if h.Transport != TransportCommand {
		return ""
	}
	if _, err := os.Stat(i.TokenFile(h.Agent)); err != nil {
		return ""
	}
	for _, other := range i.Book.Hooks {
		if other.Agent == h.Agent && other.Transport == TransportCommand && other.Token != "" {
			return other.Token
		}
	}
	return ""
}

// keepToken keeps the token file unchanged.
func (p *Plan) keepToken() {
	p.Token = false
	p.Edits = slices.DeleteFunc(p.Edits, func(e *Edit) bool { return e.secret })
}

// shares reports whether another hook uses the token of h.
func (r *Record) shares(h Hook) bool {
	return slices.ContainsFunc(r.Hooks, func(o Hook) bool { return o.Owner() != h.Owner() && o.Token == h.Token })
}

// makeToken creates the token of a hook, for its agent.
func (i *Installer) makeToken(ctx context.Context, h Hook) (string, error) {
	agent, err := i.agent(ctx, h.Agent)
	if err != nil {
		return "", err
	}
	var text string
	err = i.Book.Step("made the token of "+h.Owner(), func() error {
		made, err := i.Gateway.Tokens.CreateToken(ctx, &palyrav1.CreateTokenRequest{
			Name: h.Token, Principal: agent, Scopes: []string{hookScope}, Addresses: []string{"127.0.0.0/8", "::1/128"}, Life: durationpb.New(tokenLife),
		})
		text = made.GetText()
		return err
	})
	return text, err
}

// agent returns the member of an agent's hook, and creates it if it is missing. The agent acts
// for the user who installs the hook.
func (i *Installer) agent(ctx context.Context, a files.Agent) (string, error) {
	status, err := i.Gateway.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
	if err != nil {
		return "", err
	}
	owner := status.GetCaller().GetPrincipal()
	list, err := i.Gateway.Access.ListMembers(ctx, &palyrav1.ListMembersRequest{Removed: true})
	if err != nil {
		return "", err
	}
	taken := make(map[string]*palyrav1.Member)
	for _, m := range list.GetMembers() {
		taken[m.GetPrincipal()] = m
	}
	name := string(a)
	for n := 2; ; n++ {
		m := taken["agent:"+name]
		if m == nil {
			break
		}
		if m.GetOwner() == owner && m.GetRemovedAt() == nil && !m.GetDisabled() {
			return m.GetPrincipal(), nil
		}
		name = fmt.Sprintf("%s-%d", a, n)
	}
	// Every member has a device; the key of this device is discarded.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	text, err := identity.Request(key)
	if err != nil {
		return "", err
	}
	request, _ := pem.Decode(text)
	if request == nil {
		return "", errors.New("the certificate request is not PEM")
	}
	made, err := i.Gateway.Access.AddMember(ctx, &palyrav1.AddMemberRequest{Name: name, Kind: "agent", Roles: []string{"agent"}, Owner: owner, CertificateRequest: request.Bytes})
	if err != nil {
		return "", err
	}
	// The member's only device is revoked, because its key was discarded.
	if _, err := i.Gateway.Identity.RevokeDevice(ctx, &palyrav1.RevokeDeviceRequest{DeviceId: made.GetDeviceId()}); err != nil {
		return "", err
	}
	return made.GetMember().GetPrincipal(), nil
}

// register registers the written entries at palyrad for monitoring.
func (i *Installer) register(ctx context.Context, h Hook, p *Plan) error {
	req := &palyrav1.RegisterInstalledRequest{InstallationId: h.Installation, Agent: string(h.Agent), Scope: string(h.Scope), Transport: h.Transport}
	for _, w := range p.Watched() {
		req.Entries = append(req.Entries, &palyrav1.InstalledEntry{Path: w.Path, Format: string(w.Format), Keys: w.Keys, InList: w.List, Digest: w.Digest})
	}
	return i.Book.Step("registered "+h.Owner(), func() error {
		_, err := i.Gateway.Installed.RegisterInstalled(ctx, req)
		return err
	})
}

// revoke ends tokens by their names.
func (i *Installer) revoke(ctx context.Context, names ...string) error {
	if len(names) == 0 || i.Gateway == nil {
		return nil
	}
	list, err := i.Gateway.Tokens.ListTokens(ctx, &palyrav1.ListTokensRequest{})
	if err != nil {
		return err
	}
	for _, name := range names {
		for _, t := range list.GetTokens() {
			if t.GetName() != name {
				continue
			}
			if err := i.Book.Step("revoked "+name, func() error {
				_, err := i.Gateway.Tokens.RevokeToken(ctx, &palyrav1.RevokeTokenRequest{TokenId: t.GetTokenId()})
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Uninstall removes a hook. If the gateway is unreachable, the files are restored and the rest
// stays recorded: the error is then ErrGatewayAway.
func (i *Installer) Uninstall(ctx context.Context, h Hook) (done []Undone, err error) {
	if i.Gateway != nil {
		err := i.Book.Step("unregistered "+h.Owner(), func() error {
			_, err := i.Gateway.Installed.RemoveInstalled(ctx, &palyrav1.RemoveInstalledRequest{InstallationId: h.Installation})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if done, err = i.Book.Undo(h.Owner()); err != nil {
		return done, err
	}
	names := h.OldTokens
	if h.Token != "" && !i.Book.shares(h) {
		names = append(names, h.Token)
		held, err := i.Book.Undo(tokenOwner(h.Agent))
		done = append(done, held...)
		if err != nil {
			return done, err
		}
	}
	if err := i.revoke(ctx, names...); err != nil {
		return done, err
	}
	if i.Gateway == nil {
		return done, ErrGatewayAway
	}
	return done, i.Book.DropHook(h)
}

// ErrGatewayAway means that the files were restored, but the gateway was not notified.
var ErrGatewayAway = errors.New("the gateway does not answer: it still watches the hook, and its token is not revoked")
