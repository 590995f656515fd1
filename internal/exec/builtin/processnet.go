package builtin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
)

// checkHosts judges the hosts that the call names, and works out what the program
// may reach. No name is looked up: a DNS query tells whoever runs the name server
// about the call, and nothing has been decided yet.
func (t process) checkHosts(c *command) error {
	switch {
	case t.policy.Egress == egress.Unrestricted && c.in.Hosts != nil:
		return reason.Errorf(reason.InvalidInput, "nothing holds a program to hosts in the egress mode unrestricted, which the operator set").
			WithRemedy("Leave hosts out: the program has the network of the machine.").WithField("pointer", "/hosts")
	case t.policy.Egress == egress.Strict && c.in.Hosts == nil:
		c.grant = t.policy.Reach.Reachable()
		c.hosts = c.grant.Hosts()
		return nil
	}
	targets, err := t.targets(c.in.Hosts)
	if err != nil {
		return err
	}
	for _, target := range targets {
		c.hosts = append(c.hosts, target.String())
	}
	slices.Sort(c.hosts)
	c.hosts = slices.Compact(c.hosts)
	if t.policy.Egress == egress.Strict {
		c.grant = t.policy.Reach.Narrow(targets)
	}
	return nil
}

// targets are the hosts of a call, each of which is allowed.
func (t process) targets(hosts []string) ([]egress.Target, error) {
	var targets []egress.Target
	for _, host := range hosts {
		target, err := egress.ParseTarget(host)
		if err != nil {
			return nil, err
		}
		switch answer, rule := t.policy.Reach.Rules.Match(target.Host, target.Port); answer {
		case egress.Denied:
			return nil, reason.Errorf(reason.EgressDenied, "the operator denies %s to programs", target).WithField("pointer", "/hosts").
				WithField("rule", rule.String()).WithRemedy("Leave the host out: process_runner.denied_egress_hosts names it.")
		case egress.Unlisted:
			return nil, t.unlisted(target)
		}
		if err := t.policy.Reach.Rules.CheckAddress(target.Host, target.Port); err != nil {
			return nil, err
		}
		targets = append(targets, target)
	}
	return targets, nil
}

// preflight looks the hosts of a decided call up, in the mode that holds a
// program to nothing later on.
func (t process) preflight(ctx context.Context, c command) error {
	if t.policy.Egress != egress.Preflight {
		return nil
	}
	dialer := &egress.Dialer{Rules: t.policy.Reach.Rules, Resolver: t.policy.Resolver, Interfaces: t.policy.Interfaces}
	for _, host := range c.hosts {
		if err := dialer.Preflight(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// unlisted refuses a host, and says which ones there are.
func (t process) unlisted(target egress.Target) error {
	refused := reason.Errorf(reason.EgressDenied, "programs may not reach %s", target).WithField("pointer", "/hosts")
	allowed := t.policy.Reach.Hosts()
	if len(allowed) == 0 {
		return refused.WithRemedy("Leave hosts out: programs run offline. Fetch with http.fetch, or ask the operator to add the host to process_runner.allowed_egress_hosts.")
	}
	return refused.WithRemedy("Name hosts that programs may reach (%s), or ask the operator to add this one to process_runner.allowed_egress_hosts.", egress.Named(allowed))
}

// confined refuses hosts where nothing would hold the program to them.
func (t process) confined(c *command) error {
	if t.offline(*c) || slices.Contains(t.measured.Layers, sandbox.NetworkNamespace) {
		return nil
	}
	return reason.Errorf(reason.SandboxUnavailable, "this machine cannot hold a program to the hosts that it may reach, as it gives no network namespace").
		WithRemedy("Ask for no hosts (\"hosts\": []), and the program runs offline. What the machine lacks is in `palyrad doctor`.").
		WithField("layer", sandbox.NetworkNamespace)
}

// offline reports whether the program reaches nothing.
func (t process) offline(c command) bool {
	return t.policy.Egress == egress.Strict && len(c.grant.Rules.Allow) == 0
}

// maySend is the most bytes that the program can send to hosts.
func (t process) maySend(c command) int64 {
	if t.offline(c) {
		return 0
	}
	return c.grant.Budget.OrDefault().BytesOut
}

// granted is what the sandbox lets through, nil for nothing.
func (t process) granted(c command) *egress.Reach {
	if t.policy.Egress != egress.Strict || t.offline(c) {
		return nil
	}
	return &c.grant
}

// reach is the egress mode, and everything that decides what the program may
// exchange with whom: an approval of less is none of this.
func (t process) reach(c command) []string {
	lines := c.hosts
	if t.policy.Egress == egress.Strict {
		lines = c.grant.Lines()
	}
	return append([]string{t.policy.Egress.String()}, lines...)
}

// network says in words what a program can reach that is not offline.
func (t process) network(c command) string {
	switch t.policy.Egress {
	case egress.Strict:
		return "which may reach " + egress.Named(c.hosts) + " and nothing else"
	case egress.Preflight:
		return "with the network of the machine, its hosts checked before the start only"
	}
	return "with the unrestricted network of the machine"
}

// networkNotes are what the person who approves should know of the network.
func (t process) networkNotes(c command) []string {
	switch {
	case t.offline(c):
		return nil
	case t.policy.Egress == egress.Preflight:
		return []string{"The program has the network of the machine, its private addresses included. The hosts that the call names were checked; nothing holds the program to them."}
	case t.policy.Egress == egress.Unrestricted:
		return []string{"The program has the network of the machine, its private addresses included, and nothing bounds what it sends."}
	}
	notes := []string{fmt.Sprintf("What the program can read can leave to the hosts that it may reach, at most %s of it.", inBytes(c.grant.Budget.OrDefault().BytesOut))}
	for _, i := range c.grant.Inspect {
		notes = append(notes, fmt.Sprintf("Requests to %s are looked into: %s, %s.", i.Host.Canonical(), anyOf("method", i.Methods), anyOf("path", i.Paths)))
	}
	for _, s := range c.grant.Secrets {
		notes = append(notes, fmt.Sprintf("The program may use the secret %s in the header %s, for %s alone; it sees a placeholder.", s.Called(), s.Header, egress.Named(s.Reach())))
	}
	if c.moreSecrets {
		notes = append(notes, fmt.Sprintf("The vault has more secrets for the hosts that the program may reach, and it gets these %d alone.", programSecrets))
	}
	return notes
}

// inBytes writes a number of bytes in the largest unit that tells it exactly.
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

// secrets are the names of those that the program may use.
func (c command) secrets() []string {
	var names []string
	for _, s := range c.grant.Secrets {
		names = append(names, s.Name)
	}
	for _, i := range c.injections {
		names = append(names, i.Secret)
	}
	slices.Sort(names)
	return names
}

// placeholders are the variables in which the program finds placeholders, as a
// binding names them.
func (c command) placeholders() []string {
	var env []string
	for _, s := range c.grant.Secrets {
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

// egressOf is what a call may reach. Nobody watches a network that is open, so
// nothing is ever observed there.
func (t process) egressOf(c command) tool.Egress {
	mode := t.policy.Egress.String()
	if t.policy.Egress == egress.Unrestricted {
		mode = "unrestricted"
	}
	return tool.Egress{Mode: mode, Allowed: list(c.hosts), Observed: []tool.Connection{}}
}

// observed adds what the program tried to reach.
func observed(e *tool.Egress, ran sandbox.Report) {
	if ran.Connections != nil {
		e.Observed = ran.Connections
	}
	e.Missed = ran.ConnectionsMissed
}
