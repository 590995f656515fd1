//go:build linux

package egress

import (
	"context"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// TestTwoSandboxes: a sandbox cannot reach a listener of another sandbox at any address,
// although both run at the same time with the same grant.
func TestTwoSandboxes(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	ready := make(chan struct{})
	once := sync.OnceFunc(func() { close(ready) })
	server := g.spec(t, allowed(), "./client", "listen", "9000", "9001")
	server.Output = func(_ string, chunk []byte) {
		if strings.Contains(string(chunk), "ready") {
			once()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	type outcome struct {
		report sandbox.Report
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		report, err := g.runner.Run(ctx, server)
		once()
		ended <- outcome{report, err}
	}()
	<-ready
	argv := []string{"./client", "try"}
	var says []string
	for _, address := range []string{"127.0.0.1:9000", "[::1]:9000", "11.0.0.1:9000", "198.18.0.1:9001", "[fd00::1]:9001", "0.0.0.0:9000", allowedHost + ":9000"} {
		argv = append(argv, "tcp,"+address)
		says = append(says, "tcp,"+address+" refused")
	}
	said, recorded, report := g.run(t, g.spec(t, allowed(), argv...))
	expect(t, "the other says", said, says, report.Stderr)
	expect(t, "its record", recorded, []string{"name " + allowedHost + " allowed"}, report.Stderr)
	cancel()
	listener := <-ended
	if listener.report.Layer != nil {
		must.Check(t, listener.report.Layer.Close())
	}
	if reason.Of(listener.err) != reason.Cancelled || !strings.Contains(string(listener.report.Stdout.Head), "ready") {
		t.Errorf("the one that listens ended with %v, %s, said %q", listener.err, jailtest.Ending(listener.report), listener.report.Stdout.Head)
	}
	if list := listener.report.Connections; len(list) != 0 {
		t.Errorf("it was reached: %+v", list)
	}
}

// TestSandboxesWithOtherHosts: two concurrent sandboxes each reach only the hosts of their own
// grant. A name that both may use leads each to its own server.
func TestSandboxesWithOtherHosts(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	var both sync.WaitGroup
	for _, test := range []struct{ mine, other string }{{allowedHost, npmHost}, {npmHost, allowedHost}} {
		both.Go(func() {
			s := g.spec(t, []string{test.mine + ":80"}, "./client", "fetch", "4", "http://"+test.mine+"/hello", "4", "http://"+test.other+"/hello")
			report, err := g.runner.Run(t.Context(), s)
			if report.Layer != nil {
				defer report.Layer.Close()
			}
			if err != nil {
				t.Error(err)
				return
			}
			want := []string{"4 http://" + test.mine + "/hello hello from " + test.mine, "4 http://" + test.other + "/hello failed"}
			expect(t, "it says", lines(string(report.Stdout.Head)), want, report.Stderr)
			want = []string{"name " + test.mine + " allowed", "transparent " + test.mine + ":80 allowed", "name " + test.other + " denied " + egress.ReasonUnlisted}
			expect(t, "its record", record(t, report), want, report.Stderr)
		})
	}
	both.Wait()
}
