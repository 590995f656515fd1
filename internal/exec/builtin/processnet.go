package builtin

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/destination"
	"palyra/internal/exec/sandbox"
)

// networkRules are the operator's rules for the network of programs.
type networkRules struct {
	mode       egress.Mode
	reach      egress.Reach
	resolver   egress.Resolver
	interfaces InterfaceLister
}

// network is the network access of the program of one call.
type network struct {
	mode egress.Mode
	// hosts are canonical, sorted and without duplicates: in mode strict the hosts that the
	// program may reach, in mode preflight the hosts that were checked.
	hosts []string
	// grant is the reach of the program in mode strict.
	grant egress.Reach
	// moreSecrets reports that the vault has more secrets than the grant.
	moreSecrets bool
}

// check checks the hosts that a call names and returns the program's network. It resolves no
// names: a DNS query would disclose the call to the name server before a decision.
func (r networkRules) check(hosts []string) (network, error) {
	n := network{mode: r.mode}
	switch {
	case r.mode == egress.Unrestricted && hosts != nil:
		return n, reason.Errorf(reason.InvalidInput, "the egress mode unrestricted, which the operator set, cannot restrict a program to hosts").
			WithRemedy("Omit hosts: the program has the network of the machine.").WithField("pointer", "/hosts")
	case r.mode == egress.Strict && hosts == nil:
		n.grant = r.reach.Reachable()
		n.hosts = n.grant.Hosts()
		return n, nil
	}
	targets, err := r.targets(hosts)
	if err != nil {
		return n, err
	}
	for _, target := range targets {
		n.hosts = append(n.hosts, target.String())
	}
	slices.Sort(n.hosts)
	n.hosts = slices.Compact(n.hosts)
	if r.mode == egress.Strict {
		n.grant = r.reach.Narrow(targets)
	}
	return n, nil
}

// targets parses the hosts of a call and checks that each is allowed.
func (r networkRules) targets(hosts []string) ([]egress.Target, error) {
	var targets []egress.Target
	for _, host := range hosts {
		target, err := egress.ParseTarget(host)
		if err != nil {
			return nil, err
		}
		switch answer, rule := r.reach.Rules.Match(target.Host, target.Port); answer {
		case egress.Denied:
			return nil, reason.Errorf(reason.EgressDenied, "the operator denies %s to programs", target).WithField("pointer", "/hosts").
				WithField("rule", rule.String()).WithRemedy("Omit the host: process_runner.denied_egress_hosts names it.")
		case egress.Unlisted:
			return nil, r.unlisted(target)
		}
		if err := r.reach.Rules.CheckAddress(target.Host, target.Port); err != nil {
			return nil, err
		}
		targets = append(targets, target)
	}
	return targets, nil
}

// preflight resolves the hosts of a decided call, in the mode that does not enforce them while
// the program runs.
func (r networkRules) preflight(ctx context.Context, hosts []string) error {
	if r.mode != egress.Preflight {
		return nil
	}
	dialer := &egress.Dialer{Rules: r.reach.Rules, Resolver: r.resolver, Interfaces: r.interfaces}
	for _, host := range hosts {
		if err := dialer.Preflight(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// unlisted returns the error for a host that is not allowed. It names the allowed hosts.
func (r networkRules) unlisted(target egress.Target) error {
	refused := reason.Errorf(reason.EgressDenied, "programs may not reach %s", target).WithField("pointer", "/hosts")
	allowed := r.reach.Hosts()
	if len(allowed) == 0 {
		return refused.WithRemedy("Omit hosts: programs run offline. Fetch with http.fetch, or ask the operator to add the host to process_runner.allowed_egress_hosts.")
	}
	return refused.WithRemedy("Name hosts that programs may reach (%s), or ask the operator to add this one to process_runner.allowed_egress_hosts.", egress.Named(allowed))
}

// offline reports whether the program has no network access.
func (n network) offline() bool {
	return n.mode == egress.Strict && len(n.grant.Rules.Allow) == 0
}

// maySend returns the maximum number of bytes that the program can send to hosts.
func (n network) maySend() int64 {
	if n.offline() {
		return 0
	}
	return n.grant.Budget.OrDefault().BytesOut
}

// granted returns the reach for the sandbox, nil for none.
func (n network) granted() *egress.Reach {
	if n.mode != egress.Strict || n.offline() {
		return nil
	}
	return &n.grant
}

// reach returns the network of the sandbox. A program without hosts gets a name service that
// refuses and records every name, where a network namespace makes that possible.
func (n network) reach(m machine) *egress.Reach {
	if n.offline() && slices.Contains(m.status.Layers, sandbox.NetworkNamespace) {
		return &egress.Reach{}
	}
	return n.granted()
}

// foreseen are the hosts that a command names and that policy denies to its program. files are files
// of the workspace that name some of them, besides .git/config, which every git command reads.
type foreseen struct {
	hosts []destination.Destination
	files []string
}

// mostRepository limits the configuration of a repository, and its list of submodules, in bytes. A
// larger one is not read.
const mostRepository = 64 << 10

// The limits of foresee: of the git commands whose remotes are looked up, and of the hosts found.
const (
	mostGit      = 16
	mostForeseen = 64
)

// foresee returns the hosts that a command names and that its program may not reach. It decides
// nothing: the network of the sandbox does.
func (t process) foresee(ctx context.Context, c programCall) foreseen {
	if c.net.mode != egress.Strict {
		return foreseen{}
	}
	return c.net.foresee(ctx, c.commands(), func() (destination.Repository, string) { return t.repository(ctx, c) })
}

// foresee is process.foresee for the commands of a call. It calls repository at most once, and
// examines only the first commands, because the call has not been decided yet.
func (n network) foresee(ctx context.Context, commands [][]string, repository func() (destination.Repository, string)) foreseen {
	var found foreseen
	repository, git := sync.OnceValues(repository), 0
	for _, argv := range commands {
		if ctx.Err() != nil || len(found.hosts) >= mostForeseen {
			break
		}
		found.add(n.denied(destination.Named(argv)))
		if git == mostGit || !destination.UsesRemotes(argv) {
			continue
		}
		git++
		remotes, modules := repository()
		if found.add(n.denied(remotes.Remotes(argv))) && modules != "" {
			found.files = []string{modules}
		}
	}
	return found
}

// commands returns the command of a call, or the commands of its shell line that are known.
func (c programCall) commands() [][]string {
	if c.line == nil {
		return [][]string{c.given()}
	}
	var list [][]string
	for _, started := range c.line.Programs {
		list = append(list, started.Argv)
	}
	return list
}

// denied returns the destinations that the program may not reach.
func (n network) denied(list []destination.Destination) []destination.Destination {
	return slices.DeleteFunc(list, func(d destination.Destination) bool {
		answer, _ := n.grant.Rules.Match(d.Target.Host, d.Target.Port)
		return answer == egress.Allowed
	})
}

// repository returns the hosts of the repository around the working directory, and the name of its
// list of submodules, "" if it has none. Git is never run.
func (t process) repository(ctx context.Context, c programCall) (hosts destination.Repository, modules string) {
	root, err := t.set.Open(c.in.Workspace)
	if err != nil {
		return hosts, ""
	}
	defer root.Close()
	read := func(name string) (text string, ok bool) {
		h, err := root.Open(name)
		if err != nil {
			return "", false
		}
		defer h.Close()
		if h.Info().Size > mostRepository {
			return "", true
		}
		content, err := h.Read(ctx, 0, mostRepository)
		return string(content.Data), err == nil
	}
	for dir := c.cwd; ; dir = path.Dir(dir) {
		if config, ok := read(path.Join(dir, ".git/config")); ok {
			name := path.Join(dir, ".gitmodules")
			list, ok := read(name)
			if !ok {
				name = ""
			}
			return destination.Parse(config, list), name
		}
		if dir == "." || dir == "/" {
			return hosts, ""
		}
	}
}

// add adds destinations without duplicates, and reports whether there are any.
func (f *foreseen) add(list []destination.Destination) bool {
	for _, d := range list {
		if len(f.hosts) < mostForeseen && !slices.Contains(f.hosts, d) {
			f.hosts = append(f.hosts, d)
		}
	}
	return len(list) > 0
}

// lines returns the denied hosts, each with the place that names it.
func (f foreseen) lines() []string {
	var named []string
	for _, d := range f.hosts {
		named = append(named, d.Target.String()+", from "+d.Source)
	}
	return named
}

// notes name the denied hosts to the approver and to the caller.
func (f foreseen) notes() []string {
	named := f.lines()
	if len(named) == 0 {
		return nil
	}
	const most = 8
	text := strings.Join(named[:min(len(named), most)], "; ")
	if more := len(named) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return []string{"Policy denies hosts that the command names: " + text + ". Ask the operator to add them to process_runner.allowed_egress_hosts, or name them in the call's hosts if they are allowed."}
}

// lines lists the egress mode and everything that determines the program's network exchange. An
// approval of a smaller reach does not cover it.
func (n network) lines() []string {
	lines := n.hosts
	if n.mode == egress.Strict {
		lines = n.grant.Lines()
	}
	return append([]string{n.mode.String()}, lines...)
}

// description describes the network access of a program that is not offline.
func (n network) description() string {
	switch n.mode {
	case egress.Strict:
		return "which may reach " + egress.Named(n.hosts) + " and nothing else"
	case egress.Preflight:
		return "with the network of the machine, its hosts checked before the start only"
	}
	return "with the unrestricted network of the machine"
}

// notes are displayed to the approver.
func (n network) notes() []string {
	switch {
	case n.offline():
		return nil
	case n.mode == egress.Preflight:
		return []string{"The program has the network of the machine, its private addresses included. The hosts that the call names were checked; nothing holds the program to them."}
	case n.mode == egress.Unrestricted:
		return []string{"The program has the network of the machine, its private addresses included, and its traffic is not limited."}
	}
	notes := []string{fmt.Sprintf("The program can send any data that it can read to the hosts that it may reach, at most %s.", inBytes(n.grant.Budget.OrDefault().BytesOut))}
	for _, i := range n.grant.Inspect {
		notes = append(notes, fmt.Sprintf("Requests to %s are inspected: %s, %s.", i.Host.Canonical(), anyOf("method", i.Methods), anyOf("path", i.Paths)))
	}
	for _, s := range n.grant.Secrets {
		notes = append(notes, fmt.Sprintf("The program may use the secret %s in the header %s, for %s alone; it sees a placeholder.", s.Called(), s.Header, egress.Named(s.Reach())))
	}
	if n.moreSecrets {
		notes = append(notes, fmt.Sprintf("The vault has more secrets for the hosts that the program may reach, but it receives only these %d.", programSecrets))
	}
	return notes
}

// inBytes formats a number of bytes in the largest unit that is exact.
func inBytes(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size && n%unit.size == 0 {
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// secrets returns the names of the secrets that the program may use.
func (c programCall) secrets() []string {
	var names []string
	for _, s := range c.net.grant.Secrets {
		names = append(names, s.Name)
	}
	for _, i := range c.injections {
		names = append(names, i.Secret)
	}
	slices.Sort(names)
	return names
}

// placeholders returns the variables that contain placeholders, as a binding names them.
func (c programCall) placeholders() []string {
	var env []string
	for _, s := range c.net.grant.Secrets {
		env = append(env, s.Env+"="+s.Bound())
	}
	slices.Sort(env)
	return env
}

func anyOf(what string, list []string) string {
	if len(list) == 0 {
		return "any " + what
	}
	return what + " " + strings.Join(list, ", ")
}

// report describes the network access of a call. An unrestricted network is not monitored, so
// it never has observations.
func (n network) report() tool.Egress {
	mode := n.mode.String()
	if n.mode == egress.Unrestricted {
		mode = "unrestricted"
	}
	return tool.Egress{Mode: mode, Allowed: canonical.List(n.hosts), Observed: []tool.Connection{}}
}
