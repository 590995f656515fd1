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

// hookScope is the one permission that a hook's token has: it proposes, reports, and ends
// sessions.
const hookScope = "hook.report"

// tokenLife is how long a hook's token lasts, the longest that there is.
const tokenLife = 366 * 24 * time.Hour

// Installer installs hooks for one person.
type Installer struct {
	Site
	Book *Book
	// Gateway hears of hooks that are installed and taken out; nil is one that does not
	// answer, with which hooks can be taken out alone.
	Gateway *client.Gateway
}

// Installed is what an installation did.
type Installed struct {
	Hook  Hook
	Files []string
	// Token is the text of a token that stands in no file.
	Token string
}

// Install installs a hook, in place of one that was installed before.
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
	// The tokens of before, unless other hooks have them.
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

// sharedToken is the token that the command hooks of an agent have already; "" for none.
// It counts while its file is there.
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

// keepToken leaves the token file as it is.
func (p *Plan) keepToken() {
	p.Token = false
	p.Edits = slices.DeleteFunc(p.Edits, func(e *Edit) bool { return e.secret })
}

// shares reports whether another hook has the token of one.
func (r *Record) shares(h Hook) bool {
	return slices.ContainsFunc(r.Hooks, func(o Hook) bool { return o.Owner() != h.Owner() && o.Token == h.Token })
}

// makeToken makes the token of a hook, for the agent that it speaks for.
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

// agent is the member for whom an agent's hook speaks, which is made where it is missing.
// It acts for the person who installs it.
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
	// The member has a device, as all have; nobody keeps its key.
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
		return "", errors.New("the certificate request is no PEM")
	}
	made, err := i.Gateway.Access.AddMember(ctx, &palyrav1.AddMemberRequest{Name: name, Kind: "agent", Roles: []string{"agent"}, Owner: owner, CertificateRequest: request.Bytes})
	if err != nil {
		return "", err
	}
	// Its one device is revoked: a key that nobody has is no credential, and none is left
	// that could be mistaken for one.
	if _, err := i.Gateway.Identity.RevokeDevice(ctx, &palyrav1.RevokeDeviceRequest{DeviceId: made.GetDeviceId()}); err != nil {
		return "", err
	}
	return made.GetMember().GetPrincipal(), nil
}

// register has palyrad watch what a plan wrote.
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

// Uninstall takes a hook out. Where the gateway does not answer, the files are put right
// and the rest stays noted: the error is then ErrGatewayAway.
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

// ErrGatewayAway is that the files are as before, and the gateway still has to hear of it.
var ErrGatewayAway = errors.New("the gateway does not answer: it still watches the hook, and its token is not revoked")
