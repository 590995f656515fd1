//go:build unix

package agents

import (
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// TestDecisions has both agents run lines that policy allows, forbids or sends to a person for
// approval, and checks which of them ran.
func TestDecisions(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.up()
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			p := p.in(t)
			for _, bypass := range []bool{false, true} {
				mode := ""
				if bypass {
					mode = ", the agent asks nothing itself"
				}
				p.decided(a, bypass, mode)
			}
		})
	}
}

// decided checks the decisions for one agent in one mode.
func (p *person) decided(a *agent, bypass bool, mode string) {
	t := p.t
	suffix := strings.ReplaceAll(a.name, "-", "")
	if bypass {
		suffix += "bypass"
	}
	line, made := p.mark("free" + suffix)
	r := a.run(p, bypass, a.shell(line))
	table.want(t, "policy allows"+mode, a, happened(made()), ran, r.Out+r.Err+p.model.results())

	line, made = p.mark("forbidden" + suffix)
	r = a.run(p, bypass, a.shell(line))
	table.want(t, "policy forbids"+mode, a, happened(made()), blocked, r.Out+r.Err)
	if said := p.model.results(); !strings.Contains(said, "POLICY_DENIED") {
		t.Errorf("the model was not told why: %s", said)
	}

	line, made = p.mark("yes" + suffix)
	p.model.wants(a.shell(line))
	c := a.start(p, bypass)
	q := p.waiting(c)
	if made() {
		t.Errorf("%q ran before anybody answered", line)
	}
	p.palyra("approve", q.ID, "--digest", q.Digest).Want(t, 0)
	r = c.Wait(t)
	table.want(t, "a person says yes"+mode, a, happened(made()), ran, r.Out+r.Err+p.model.results())

	line, made = p.mark("no" + suffix)
	p.model.wants(a.shell(line))
	c = a.start(p, bypass)
	q = p.waiting(c)
	p.palyra("deny", q.ID, "--digest", q.Digest, "--reason", "a test").Want(t, 0)
	r = c.Wait(t)
	table.want(t, "a person says no"+mode, a, happened(made()), blocked, r.Out+r.Err+p.model.results())

	line, made = p.mark("expires" + suffix)
	r = a.run(p, bypass, a.shell(line))
	table.want(t, "nobody answers"+mode, a, happened(made()), blocked, r.Out+r.Err)
	if said := p.model.results(); !strings.Contains(said, "APPROVAL_EXPIRED") && !strings.Contains(said, "STILL_WAITING") {
		t.Errorf("the model was not told that nobody answered: %s", said)
	}
}

// TestDaemonDown: while palyrad is stopped, no agent runs a tool.
func TestDaemonDown(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.up()
	pid := p.pid()
	if pid == 0 {
		t.Fatal("palyrad does not run after palyra up")
	}
	p.stop(pid)
	for _, a := range all {
		for _, bypass := range []bool{false, true} {
			fault := "palyrad does not run"
			if bypass {
				fault += ", the agent asks nothing itself"
			}
			must.Do(t, removeAll(p.workspace, "free"))
			line, made := p.mark("free")
			r := a.run(p, bypass, a.shell(line))
			table.want(t, fault, a, happened(made()), blocked, r.Out+r.Err+p.model.results())
		}
	}
}
