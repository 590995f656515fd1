package packages

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
)

// mostLock is the maximum size of a lock file or report in bytes. Together with the prompt it
// must fit into the memory of a small machine.
const mostLock = 16 << 20

// longest is the maximum duration and processor time of npm or pip.
const longest = 10 * time.Minute

// Resolve pins a package for a server: npm or pip finds the versions and digests of all
// dependencies, in a sandbox that reaches only the registry. It installs nothing. The requester
// must have the permission to add servers.
func (s *Service) Resolve(ctx context.Context, by access.Caller, w declared.PackageRequest) (declared.Resolution, error) {
	if err := w.Check(); err != nil {
		return declared.Resolution{}, err
	}
	if err := s.use.Ready(); err != nil {
		return declared.Resolution{}, err
	}
	registry, hosts, err := w.From()
	if err != nil {
		return declared.Resolution{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longest, reason.Errorf(reason.TimedOut, "the package was not resolved within %s", longest))
	defer cancel()
	e := ecosystems[w.Ecosystem]
	r := declared.Resolution{Server: w.Server, Ecosystem: w.Ecosystem, Registry: registry, Hosts: hosts, Login: w.Login}
	wrote, err := s.resolve(ctx, by, e, w, r)
	if err != nil {
		return declared.Resolution{}, err
	}
	if err := e.lock(w, &r, wrote); err != nil {
		return declared.Resolution{}, err
	}
	if r.Files == nil {
		r.Files = map[string]string{}
		for name, text := range wrote {
			r.Files[name] = string(text)
		}
	}
	digest, err := r.Digest()
	if err != nil {
		return declared.Resolution{}, err
	}
	return r, write(s.resolved(w.Server, digest), r)
}

// resolve returns the files that npm or pip wrote.
func (s *Service) resolve(ctx context.Context, by access.Caller, e ecosystem, w declared.PackageRequest, r declared.Resolution) (map[string][]byte, error) {
	argv, files := e.resolve(w, r.Registry)
	dir, remove, err := s.scratch(files)
	if err != nil {
		return nil, err
	}
	defer remove()
	p := tool.Proposal{ID: ulid.Make().String(), Caller: by}
	c, err := s.command(ctx, p, argv, r)
	if err != nil {
		return nil, err
	}
	defer s.lend(tool.Call{Proposal: p}, &c)()
	ran, err := s.run(ctx, c, dir, "mcp/"+w.Server+"/"+by.Principal.String(), nil)
	defer func() { _ = ran.Layer.Close() }() // the next start removes the rest
	if err != nil {
		return nil, wrapped(ctx, "resolving a package", err)
	}
	set, err := ran.Layer.Changes(ctx)
	if err != nil {
		return nil, wrapped(ctx, "reading the resolution of a package", err)
	}
	wrote := map[string][]byte{}
	for _, change := range set.Changes {
		if !slices.Contains(e.wrote, change.Path) {
			continue
		}
		err := set.Look(change, func(r io.Reader) (err error) {
			wrote[change.Path], err = io.ReadAll(io.LimitReader(r, mostLock+1))
			return err
		})
		if err == nil && len(wrote[change.Path]) > mostLock {
			err = reason.Errorf(reason.QuotaExceeded, "the lock file of the package is too large")
		}
		if err != nil {
			return nil, err
		}
	}
	for _, name := range e.wrote {
		if wrote[name] == nil {
			return nil, reason.Errorf(reason.ToolFailed, "%s did not write %s", c.argv[0], name)
		}
	}
	return wrote, nil
}

// preparedProgram is a program that runs for a package, with its resolved path.
type preparedProgram struct {
	argv    []string
	program tool.Executable
	chains  []command.Toolchain
	reach   egress.Reach
	// login reports that a secret is sent to the registry.
	login bool
}

// command prepares the program that resolves or installs a package.
func (s *Service) command(ctx context.Context, p tool.Proposal, argv []string, r declared.Resolution) (preparedProgram, error) {
	c := preparedProgram{argv: argv, chains: s.use.Toolchains()}
	search := slices.Clone(s.use.SearchPath)
	for _, chain := range c.chains {
		search = append(search, chain.Bins...)
	}
	program, err := s.resolver.ResolveExecutable(argv[0], search)
	if err != nil {
		return c, reason.Errorf(reason.NotFound, "%s, which installs the package, was not found on the gateway's host", argv[0]).WithCause(err).
			WithRemedy("Install npm, or Python 3 with pip (python3-pip), in a directory of the search path that `palyrad doctor` prints.")
	}
	c.program = program.Executable
	rules, err := egress.ParseRules(r.Hosts)
	if err != nil {
		return c, err
	}
	c.reach = egress.Reach{Rules: egress.Rules{Allow: rules, Gateway: s.use.Gateway}}
	c.reach.Secrets, err = s.loginFor(ctx, p, r)
	c.login = len(c.reach.Secrets) > 0
	return c, err
}

// loginFor returns the secret for a private registry, for its own host only. The caller must be
// allowed to use it.
func (s *Service) loginFor(ctx context.Context, p tool.Proposal, r declared.Resolution) ([]egress.Secret, error) {
	name := r.Login.Secret
	if name == "" {
		return nil, nil
	}
	if s.use.Lender == nil {
		return nil, reason.Errorf(reason.NotFound, "this gateway has no vault, and the registry %s requires a secret", r.Registry)
	}
	_, own, err := (declared.Server{URL: r.Registry}).Target()
	if err != nil {
		return nil, err
	}
	offers, _, err := s.use.Lender.Offers(ctx, p, 1, func(o egress.Secret) bool { return o.Name == name })
	if err != nil {
		return nil, err
	}
	put := fmt.Sprintf("Store it for that host: `palyra vault put vault://%s --host %s`.", name, own)
	switch {
	case len(offers) == 0:
		return nil, reason.Errorf(reason.PermissionDenied, "the registry %s requires the secret vault://%s, which %s may not use or which does not exist", r.Registry, name, p.Caller.Principal).WithRemedy("%s", put)
	case !offers[0].For(own) || offers[0].Header != "Authorization":
		return nil, reason.Errorf(reason.InvalidInput, "the secret vault://%s is not for the header Authorization at %s", name, own).WithRemedy("%s", put)
	}
	login := offers[0]
	login.Env = ecosystems[r.Ecosystem].loginVariable(r.Registry)
	login.Hosts, err = egress.ParseRules([]string{own.String()})
	return []egress.Secret{login}, err
}

// lend lends a command the secret of the registry until end is called.
func (s *Service) lend(call tool.Call, c *preparedProgram) (end func()) {
	if len(c.reach.Secrets) == 0 {
		return func() {}
	}
	c.reach.Secrets, end = s.use.Lender.Lend(call, c.reach.Secrets)
	return end
}

// run runs npm or pip on a copy of a directory. Its error quotes the output of the program.
func (s *Service) run(ctx context.Context, c preparedProgram, dir, owner string, output func(string, []byte)) (sandbox.Report, error) {
	limits := s.use.Limits.OrDefault()
	limits.Wall, limits.CPU = longest, longest
	limits.Tmp = max(limits.Tmp, limits.Disk) // npm stores its downloads there
	ran, err := s.use.Runner.Run(ctx, sandbox.Spec{
		Argv: c.argv, Executable: c.program, WorkspaceRoot: dir, WorkspaceName: "package", Workspace: sandbox.CopyOnWrite, Toolchains: c.chains,
		Limits: limits, Egress: egress.Strict, Network: &c.reach, Required: s.use.Required, Owner: owner, Output: output,
	})
	switch {
	case err != nil:
		return ran, err
	case ran.TimedOut:
		return ran, reason.Errorf(reason.TimedOut, "%s did not end within %s", c.argv[0], longest)
	case ran.Quota != "":
		return ran, reason.Errorf(reason.QuotaExceeded, "%s used up its limit of %s", c.argv[0], ran.Quota)
	case refused(ran) && (ran.ExitCode == nil || *ran.ExitCode != 0):
		return ran, reason.Errorf(reason.ToolFailed, "the registry refused a request of %s (401 or 403): %s", c.argv[0], lastOutput(ran)).WithRemedy("%s", remedyFor(c, ran))
	case ran.ExitCode == nil || *ran.ExitCode != 0:
		return ran, reason.Errorf(reason.ToolFailed, "%s failed: %s", c.argv[0], lastOutput(ran)).WithRemedy("%s", remedyFor(c, ran))
	case ran.Layer == nil:
		return ran, reason.Errorf(reason.SandboxUnavailable, "the sandbox did not keep the output files of %s", c.argv[0])
	}
	return ran, nil
}

// unauthorized matches the messages of npm and pip about a refusal of the registry.
var unauthorized = lazyregexp.New(`\bE40[13]\b|\b40[13] (Client Error|Unauthorized|Forbidden)`)

// refused reports whether a registry requires a login or rejected it.
func refused(ran sandbox.Report) bool {
	for _, stream := range []sandbox.Stream{ran.Stdout, ran.Stderr} {
		if unauthorized.MatchString(string(stream.Head) + string(stream.Tail)) {
			return true
		}
	}
	return false
}

// remedyFor returns the next step after a failure.
func remedyFor(c preparedProgram, ran sandbox.Report) string {
	unreached := egress.Explanations(ran.Connections, ran.ConnectionsMissed, c.reach.Hosts())
	switch {
	case refused(ran) && c.login:
		return "The registry rejects the login: check that the secret is the right one, has not expired, and may read the package."
	case refused(ran):
		return "The registry requires a login: store it with `palyra vault put vault://global/NAME --host HOST:PORT`, and name it with --registry-secret."
	case strings.Contains(lastOutput(ran), "No module named pip"):
		return "Install pip for the gateway's Python: the package python3-pip."
	case len(unreached) > 0:
		return "Check that the registry is the right one (--registry) and that it answers: " + strings.Join(unreached, "; ")
	case c.argv[0] == "python3":
		return "Check that the name and the version are right, and that wheels exist for this machine: nothing is built from source."
	}
	return "Check that the name and the version are right, and that the registry answers."
}

// lastOutput returns the end of a program's output, in one line.
func lastOutput(ran sandbox.Report) string {
	content := string(ran.Stderr.Head) + string(ran.Stderr.Tail)
	if strings.TrimSpace(content) == "" {
		content = string(ran.Stdout.Head) + string(ran.Stdout.Tail)
	}
	words := strings.Join(strings.Fields(strings.ToValidUTF8(content, "\ufffd")), " ")
	words = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, words)
	if words == "" {
		return "it wrote no output"
	}
	return text.Ellipsis(words, 1000)
}
