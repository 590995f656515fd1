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

// checkHosts checks the hosts that the call names and determines the program's reach. It resolves
// no names: a DNS query would disclose the call to the name server before a decision.
func (t process) checkHosts(c *programCall) error {
	switch {
	case t.policy.Egress == egress.Unrestricted && c.in.Hosts != nil:
		return reason.Errorf(reason.InvalidInput, "the egress mode unrestricted, which the operator set, cannot restrict a program to hosts").
			WithRemedy("Omit hosts: the program has the network of the machine.").WithField("pointer", "/hosts")
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

// targets parses the hosts of a call and checks that each is allowed.
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
				WithField("rule", rule.String()).WithRemedy("Omit the host: process_runner.denied_egress_hosts names it.")
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

// preflight resolves the hosts of a decided call, in the mode that does not enforce them while
// the program runs.
func (t process) preflight(ctx context.Context, c programCall) error {
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

// unlisted returns the error for a host that is not allowed. It names the allowed hosts.
func (t process) unlisted(target egress.Target) error {
	refused := reason.Errorf(reason.EgressDenied, "programs may not reach %s", target).WithField("pointer", "/hosts")
	allowed := t.policy.Reach.Hosts()
	if len(allowed) == 0 {
		return refused.WithRemedy("Omit hosts: programs run offline. Fetch with http.fetch, or ask the operator to add the host to process_runner.allowed_egress_hosts.")
	}
	return refused.WithRemedy("Name hosts that programs may reach (%s), or ask the operator to add this one to process_runner.allowed_egress_hosts.", egress.Named(allowed))
}

// confined refuses hosts if nothing would restrict the program to them.
func (t process) confined(c *programCall) error {
	if t.offline(*c) || slices.Contains(t.measured.Layers, sandbox.NetworkNamespace) {
		return nil
	}
	return reason.Errorf(reason.SandboxUnavailable, "this machine cannot restrict a program to hosts, because network namespaces are not available").
		WithRemedy("Request no hosts (\"hosts\": []) to run the program offline. `palyrad doctor` shows missing features of the machine.").
		WithField("layer", sandbox.NetworkNamespace)
}

// offline reports whether the program has no network access.
func (t process) offline(c programCall) bool {
	return t.policy.Egress == egress.Strict && len(c.grant.Rules.Allow) == 0
}

// maySend returns the maximum number of bytes that the program can send to hosts.
func (t process) maySend(c programCall) int64 {
	if t.offline(c) {
		return 0
	}
	return c.grant.Budget.OrDefault().BytesOut
}

// granted returns the reach for the sandbox, nil for none.
func (t process) granted(c programCall) *egress.Reach {
	if t.policy.Egress != egress.Strict || t.offline(c) {
		return nil
	}
	return &c.grant
}

// reach lists the egress mode and everything that determines the program's network exchange. An
// approval of a smaller reach does not cover it.
func (t process) reach(c programCall) []string {
	lines := c.hosts
	if t.policy.Egress == egress.Strict {
		lines = c.grant.Lines()
	}
	return append([]string{t.policy.Egress.String()}, lines...)
}

// network describes the network access of a program that is not offline.
func (t process) network(c programCall) string {
	switch t.policy.Egress {
	case egress.Strict:
		return "which may reach " + egress.Named(c.hosts) + " and nothing else"
	case egress.Preflight:
		return "with the network of the machine, its hosts checked before the start only"
	}
	return "with the unrestricted network of the machine"
}

// networkNotes are displayed to the approver.
func (t process) networkNotes(c programCall) []string {
	switch {
	case t.offline(c):
		return nil
	case t.policy.Egress == egress.Preflight:
		return []string{"The program has the network of the machine, its private addresses included. The hosts that the call names were checked; nothing holds the program to them."}
	case t.policy.Egress == egress.Unrestricted:
		return []string{"The program has the network of the machine, its private addresses included, and its traffic is not limited."}
	}
	notes := []string{fmt.Sprintf("The program can send any data that it can read to the hosts that it may reach, at most %s.", inBytes(c.grant.Budget.OrDefault().BytesOut))}
	for _, i := range c.grant.Inspect {
		notes = append(notes, fmt.Sprintf("Requests to %s are inspected: %s, %s.", i.Host.Canonical(), anyOf("method", i.Methods), anyOf("path", i.Paths)))
	}
	for _, s := range c.grant.Secrets {
		notes = append(notes, fmt.Sprintf("The program may use the secret %s in the header %s, for %s alone; it sees a placeholder.", s.Called(), s.Header, egress.Named(s.Reach())))
	}
	if c.moreSecrets {
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
	for _, s := range c.grant.Secrets {
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

// egressOf describes the network access of a call. An unrestricted network is not monitored, so
// it never has observations.
func (t process) egressOf(c programCall) tool.Egress {
	mode := t.policy.Egress.String()
	if t.policy.Egress == egress.Unrestricted {
		mode = "unrestricted"
	}
	return tool.Egress{Mode: mode, Allowed: list(c.hosts), Observed: []tool.Connection{}}
}

// observed adds the connection attempts of the program.
func observed(e *tool.Egress, ran sandbox.Report) {
	if ran.Connections != nil {
		e.Observed = ran.Connections
	}
	e.Missed = ran.ConnectionsMissed
}
