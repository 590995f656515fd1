//go:build unix

package agents

import "testing"

// TestControl runs the lines of all other tests without Palyra. The lines that the other tests
// expect to be blocked run here.
func TestControl(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	for _, a := range all {
		line, made := p.mark("forbidden" + a.name)
		r := a.run(p, true, a.shell(line))
		table.want(t, "control: without palyra up", a, happened(made()), ran, r.Out+r.Err+p.model.results())
	}
}
