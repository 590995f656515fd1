//go:build linux

package attack

import (
	"fmt"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox/bubblewrap"
)

// TestPreparedForAnother: a sandbox that was prepared with one grant, and with its resolved
// names, is never given to a call with another grant.
func TestPreparedForAnother(t *testing.T) {
	t.Parallel()
	c := newScene(t)
	c.world = newWorld(t)
	cfg := configOf(nil, "")
	cfg.Outward, cfg.Prepared = c.world.outward(), 2
	r, err := bubblewrap.New(cfg)
	c.must(err)
	t.Cleanup(func() { must.Check(t, r.Close()) })
	c.allow("{evil}:80")
	c.spec.Argv = append([]string{c.attacks}, c.fillAll(talk("fetch http://{evil}/", "or", "udp {dns}", "ask 1 {good/}", "sweep 24 80 {evil}"))...)
	try := func() (done, prepared bool, all string) {
		report, err := r.Run(t.Context(), c.spec)
		c.must(err)
		c.must(report.Layer.Close())
		said := lastLine(report.Stdout)
		return strings.Contains(said, `"done":true`), report.Isolation.Prepared, fmt.Sprintf("%s %+v", said, report.Connections)
	}
	control := false
	// A sandbox is prepared in the pause between two checks. The pause grows until it is long
	// enough.
	must.Eventually(t, "a prepared sandbox", func() (bool, string) {
		done, prepared, all := try()
		control = done && prepared
		return prepared, all
	})
	rules, err := egress.ParseRules([]string{c.fill("{good}:80")})
	c.must(err)
	c.spec.Network = &egress.Reach{Rules: egress.Rules{Allow: rules}}
	done, _, all := try()
	record(t, "NET-10 a sandbox prepared for another grant", done, control, all)
}
