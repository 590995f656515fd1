package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/program/envsecret"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/vault"
)

// launch is the complete, decided configuration of an instance.
type launch struct {
	server declared.Server
	digest string
	owner  access.Principal
	// by is the caller that needs the instance.
	by      access.Caller
	program tool.Executable
	// argv is the resolved command line.
	argv   []string
	chains []command.Toolchain
	// root and protected describe the server's workspace; root is the empty directory for servers
	// without one.
	root      string
	protected []string
	mode      sandbox.WorkspaceMode
	// secrets are the secrets that the server may use, each with its version.
	secrets []egress.Secret
	// injections are the secrets that the program receives as plain values, and handed holds the
	// values: nil for a caller that may not start it.
	injections []tool.Injection
	handed     *handed
	// login is the reference of the login for calls, zero for none. token is the token that a
	// call obtained from it.
	login vault.Ref
	token []egress.Secret
}

// visibleSecrets returns the secrets and the token.
func (l launch) visibleSecrets() []egress.Secret { return slices.Concat(l.secrets, l.token) }

// key identifies a launch: another program, secret or setting results in another instance.
func (l launch) key() string {
	return fmt.Sprintf("%q", []any{l.server.Name, l.digest, l.owner, l.program, l.argv, l.chains, l.root, l.protected, l.mode, bound(l.visibleSecrets()), envsecret.Bound(l.injections)})
}

// launcher determines launches. It starts nothing.
type launcher struct {
	use      *Config
	resolver *command.Resolver
}

// launchFor determines the launch of an instance for a call. It starts nothing.
func (ln *launcher) launchFor(ctx context.Context, s declared.Server, digest string, p tool.Proposal) (launch, error) {
	l := launch{server: s, digest: digest, owner: p.Caller.Principal, by: p.Caller, mode: sandbox.ReadOnly, root: ln.use.Empty}
	if s.Shared {
		l.owner = access.Principal{}
	}
	if !s.Remote() {
		if err := ln.local(&l); err != nil {
			return l, err
		}
	}
	var err error
	if l.secrets, err = ln.secretsFor(ctx, s, p); err != nil {
		return l, err
	}
	if err := ln.injectionsFor(ctx, &l, p); err != nil || s.OAuth == nil {
		return l, err
	}
	if ln.use.Logins == nil {
		return l, reason.Errorf(reason.UpstreamLogin, "this gateway cannot log in at upstream servers, and %s requires a login", s.Name)
	}
	l.login, err = ln.use.Logins.Ready(ctx, p.Caller, s)
	return l, err
}

// local resolves the program and the workspace.
func (ln *launcher) local(l *launch) error {
	s := l.server
	l.chains = ln.use.Toolchains()
	search := slices.Clone(ln.use.SearchPath)
	for _, chain := range l.chains {
		search = append(search, chain.Bins...)
	}
	if s.Package != nil {
		prefix, err := ln.use.Prefixes.Open(s.Name, *s.Package)
		if err != nil {
			return err
		}
		// The program must come from the package, not from a host directory with a program of the
		// same name.
		search = prefix.Bins
		l.chains = append([]command.Toolchain{prefix}, l.chains...)
	}
	l.argv = s.Command
	if s.Workspace == "" {
		return ln.outside(l, search)
	}
	root, err := ln.use.Workspaces.Open(s.Workspace)
	if err != nil {
		return err
	}
	defer root.Close()
	l.root, l.protected = root.Path(), ln.use.Protected[s.Workspace]
	if s.Write && !root.ReadOnly() {
		l.mode = sandbox.CopyOnWrite
	}
	if _, inside := command.Inside(s.Command[0], root.Path(), ""); inside {
		return ln.inWorkspace(l, root)
	}
	return ln.outside(l, search)
}

// outside resolves a program of the host or of a package.
func (ln *launcher) outside(l *launch, search []string) error {
	program, err := ln.resolver.ResolveExecutable(l.argv[0], search)
	if _, inside := command.Inside(l.argv[0], "", ""); err != nil && inside && l.server.Workspace == "" {
		return reason.Errorf(reason.SpawnFailed, "the program %q of the upstream server %s is inside a workspace, and the server has none", l.argv[0], l.server.Name).
			WithRemedy("Add the server with --workspace.")
	}
	l.program = program.Executable
	return err
}

// secretsFor returns the secrets of a server that the caller may use: either all of them or an
// error.
func (ln *launcher) secretsFor(ctx context.Context, s declared.Server, p tool.Proposal) ([]egress.Secret, error) {
	wanted := s.Placeholders()
	if len(wanted) == 0 {
		return nil, nil
	}
	if ln.use.Lender == nil {
		return nil, reason.Errorf(reason.NotFound, "this gateway has no vault, and the upstream server %s requires secrets", s.Name)
	}
	offers, _, err := ln.use.Lender.Offers(ctx, p, len(wanted), func(o egress.Secret) bool { return slices.Contains(wanted, o.Name) })
	if err != nil {
		return nil, err
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(offers, func(o egress.Secret) bool { return o.Name == name }) {
			return nil, reason.Errorf(reason.PermissionDenied, "the upstream server %s requires the secret vault://%s, which %s may not use or which does not exist", s.Name, name, p.Caller.Principal).
				WithRemedy("Store it with `palyra vault put %s`, including its hosts and its header, and allow the caller to lease it by policy.", name)
		}
	}
	slices.SortFunc(offers, func(a, b egress.Secret) int { return strings.Compare(a.Name, b.Name) })
	return offers, nil
}

// injectionsFor adds the secrets that a server receives as plain values: either all of them or an
// error.
func (ln *launcher) injectionsFor(ctx context.Context, l *launch, p tool.Proposal) error {
	s := l.server
	if len(s.Inject) == 0 {
		return nil
	}
	if ln.use.Lender == nil {
		return reason.Errorf(reason.NotFound, "this gateway has no vault, and the upstream server %s requires secrets", s.Name)
	}
	for _, name := range s.Inject {
		i, err := ln.use.Lender.Injectable(ctx, p, name)
		if err != nil {
			return err
		}
		i.Server, i.Within = s.Name, vault.MaxLease.String()
		list, refused := envsecret.Place(l.injections, i, s.Environment(), l.secrets)
		if refused != nil {
			return refused
		}
		l.injections = list
	}
	slices.SortFunc(l.injections, func(a, b tool.Injection) int { return strings.Compare(a.Secret, b.Secret) })
	return nil
}

// lend leases the secrets of a call and the token of its login, which it stores in l. The caller
// must always call end.
func (ln *launcher) lend(ctx context.Context, c tool.Call, l *launch, rejected int) (lent []egress.Secret, end func(), err error) {
	back := func() {}
	if len(l.secrets) > 0 {
		lent, back = ln.use.Lender.Lend(c, l.secrets)
	}
	if l.login == (vault.Ref{}) {
		return lent, back, nil
	}
	login, err := ln.use.Logins.Use(ctx, c.Proposal.Caller, l.server, c.Proposal.ID, rejected)
	if err != nil {
		return lent, back, err
	}
	l.token = []egress.Secret{login.Token}
	return append(lent, login.Token), func() {
		back()
		if err := login.End(ctx); err != nil {
			ln.use.Log.ErrorContext(ctx, "recording the end of a lease failed", slog.String("upstream", l.server.Name), slog.Any("error", err))
		}
	}, nil
}

// hand leases the secrets of an allowed start.
func (ln *launcher) hand(ctx context.Context, c tool.Call, l launch) (*handed, error) {
	h := &handed{over: make(chan struct{})}
	values, back, err := ln.use.Lender.InjectUntil(ctx, c, l.injections, "the upstream server "+l.server.Name, time.Now().Add(vault.MaxLease), sync.OnceFunc(func() { close(h.over) }))
	h.back = sync.OnceFunc(back)
	if err == nil {
		h.given, err = envsecret.New(l.injections, values)
	}
	if err != nil {
		h.end()
		return nil, err
	}
	return h, nil
}
