//go:build palyrainit

package gateway

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/exec/sandbox/exec"
)

// The tests of this file run git in bubblewrap against their own servers.

// twin is a git server on two addresses with the same port, so that only an egress rule
// distinguishes them.
type twin struct {
	allowed, denied   string
	asked, askedOther atomic.Int64
}

func startTwin(t *testing.T) *twin {
	t.Helper()
	s := &twin{}
	for range 20 {
		one := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
		s.allowed = one.Addr().String()
		s.denied = fmt.Sprintf("127.0.0.2:%d", one.Addr().(*net.TCPAddr).Port)
		two, err := net.Listen("tcp4", s.denied)
		if err != nil {
			one.Close()
			continue // the port is in use on the second address
		}
		serve(t, one, &s.asked)
		serve(t, two, &s.askedOther)
		return s
	}
	t.Fatal("no port is free on two loopback addresses")
	return nil
}

const someRef = "0123456789abcdef0123456789abcdef01234567\trefs/heads/main\n"

// serve answers like a git server of the dumb HTTP protocol, and counts requests.
func serve(t *testing.T, l net.Listener, asked *atomic.Int64) {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "text/plain")
		if strings.HasSuffix(r.URL.Path, "/info/refs") {
			_, _ = w.Write([]byte(someRef))
		}
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
}

func lsRemote(at string) []string { return []string{"git", "ls-remote", "http://" + at + "/r"} }

// TestProgramsReachOnlyWhatIsAllowed: through the whole daemon, a program reaches the host that
// the operator allows and not its twin. Result, attestation and journal report both.
func TestProgramsReachOnlyWhatIsAllowed(t *testing.T) {
	t.Parallel()
	s := startTwin(t)
	g := startGoverned(t, func(cfg *config.Config) { cfg.ProcessRunner.AllowedEgressHosts = []string{s.allowed} })
	if r := g.call(map[string]any{"argv": lsRemote(s.allowed)}); *r.result.ExitCode != 0 || s.asked.Load() == 0 || !strings.Contains(string(r.GetResultJson()), "refs/heads/main") {
		t.Fatalf("the allowed host was not reached: %s", r.GetResultJson())
	}
	r := g.call(map[string]any{"argv": lsRemote(s.denied)})
	if *r.result.ExitCode == 0 || s.askedOther.Load() != 0 {
		t.Fatalf("the other host was reached: %s", r.GetResultJson())
	}
	if want := "Blocked host: " + s.denied + " (policy: this tool may reach only " + s.allowed + ")."; !strings.Contains(string(r.GetResultJson()), want) {
		t.Errorf("the result lacks %q: %s", want, r.GetResultJson())
	}
	var statement attest.Statement
	must.Do(t, json.Unmarshal([]byte(r.attested), &statement))
	e := statement.Predicate.Egress
	if e.Mode != "strict" || !slices.Equal(e.Allowed, []string{s.allowed}) || len(e.Observed) == 0 || e.Observed[0].Verdict != "denied" || e.Observed[0].Reason != "unlisted" {
		t.Errorf("the attestation says %+v", e)
	}
	events := must.Get(palyrav1connect.NewJournalServiceClient(g.client(), g.url()).ListEvents(t.Context(), &palyrav1.ListEventsRequest{Filter: &palyrav1.EventFilter{Code: string(event.Attested)}}))(t)
	var payload struct {
		Report tool.Report `json:"report"`
	}
	for _, one := range events.GetEvents() {
		if strings.Contains(string(one.GetPayloadJson()), `"127.0.0.2"`) {
			must.Do(t, json.Unmarshal(one.GetPayloadJson(), &payload))
		}
	}
	if observed := payload.Report.Egress.Observed; len(observed) == 0 || observed[0].Host != "127.0.0.2" {
		t.Errorf("the journal says %+v", observed)
	}
}

// TestCallsNarrowTheirNetwork: a call declares the part of the allowed hosts that it needs, or
// none, and other hosts are refused.
func TestCallsNarrowTheirNetwork(t *testing.T) {
	t.Parallel()
	s := startTwin(t)
	g := startGoverned(t, func(cfg *config.Config) { cfg.ProcessRunner.AllowedEgressHosts = []string{s.allowed, s.denied} })
	r := g.call(map[string]any{"argv": lsRemote(s.denied), "hosts": []string{s.allowed}})
	if *r.result.ExitCode == 0 || s.askedOther.Load() != 0 {
		t.Errorf("more was reached than the call named: %s", r.GetResultJson())
	}
	r = g.call(map[string]any{"argv": lsRemote(s.allowed), "hosts": []string{}})
	if *r.result.ExitCode == 0 || s.asked.Load() != 0 {
		t.Errorf("an offline call reached a host: %s", r.GetResultJson())
	}
	// Control: the call reaches a host that it declares.
	if r = g.call(map[string]any{"argv": lsRemote(s.denied), "hosts": []string{s.denied}}); *r.result.ExitCode != 0 {
		t.Errorf("what the call named was not reached: %s", r.GetResultJson())
	}
	verdict, err := palyrav1connect.NewGatewayServiceClient(g.client(), g.url()).EvaluateTool(t.Context(),
		&palyrav1.EvaluateToolRequest{Tool: "process.run", InputJson: []byte(`{"argv":["git"],"hosts":["127.0.0.3:80"]}`)})
	if err == nil && verdict.GetReason() != string(reason.EgressDenied) || err != nil && !strings.Contains(err.Error(), "127.0.0.3:80") {
		t.Errorf("a host that is not allowed: %v, %v", verdict, err)
	}
}

// TestExecAllowedHosts: `palyrad sandbox exec` allows the hosts of --allow.
func TestExecAllowedHosts(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	for _, tier := range []string{"b", "c"} {
		s := startTwin(t)
		both := []string{"--tier", tier, "--allow", s.allowed, "--allow", s.denied}
		run := func(flags []string, at string) executed {
			return sandboxExec(t, "", append(flags, append([]string{"--"}, lsRemote(at)...)...)...)
		}
		if e := run([]string{"--tier", tier, "--allow", s.allowed}, s.allowed); e.code != 0 || e.out != someRef || e.errOut != "" {
			t.Errorf("tier %s, allowed: %+v", tier, e)
		}
		e := run([]string{"--tier", tier, "--allow", s.allowed}, s.denied)
		if e.code == 0 || s.askedOther.Load() != 0 || !strings.Contains(e.errOut, "palyrad: Blocked host: "+s.denied+" (policy: this tool may reach only "+s.allowed+").") {
			t.Errorf("tier %s, not allowed: %+v", tier, e)
		}
		if e := run(append(slices.Clone(both), "--deny", "127.0.0.2"), s.denied); e.code == 0 || s.askedOther.Load() != 0 || !strings.Contains(e.errOut, "is a blocked host (policy: process_runner.denied_egress_hosts") {
			t.Errorf("tier %s, denied: %+v", tier, e)
		}
		// Control: both hosts are reachable.
		if e := run(both, s.denied); e.code != 0 || s.askedOther.Load() == 0 {
			t.Errorf("tier %s, both allowed: %+v", tier, e)
		}
		e = run([]string{"--tier", tier, "--report", "json", "--allow", s.allowed}, s.denied)
		lines := strings.Split(strings.TrimSpace(e.errOut), "\n")
		var report exec.Report
		must.Do(t, json.Unmarshal([]byte(lines[len(lines)-1]), &report))
		if o := report.Egress.Observed; len(o) == 0 || o[0].Host != "127.0.0.2" || o[0].Verdict != "denied" || !slices.Equal(report.Egress.Allowed, []string{s.allowed}) {
			t.Errorf("tier %s: the report says %+v", tier, report.Egress)
		}
	}
}

// TestExecRefusal: a refused system call is printed after a program that failed. Control: a program
// that goes on without it.
func TestExecRefusal(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	const open = "import socket; socket.socket(socket.AF_UNIX)"
	const says = "palyrad: The sandbox refused the program socket of a unix socket (stream; Tier C has them "
	if e := sandboxExec(t, "", "--read-only", "--", "python3", "-c", open); e.code != 1 || !strings.Contains(e.errOut, says) {
		t.Errorf("%+v", e)
	}
	if e := sandboxExec(t, "", "--read-only", "--", "sh", "-c", "python3 -c '"+open+"' 2>/dev/null; true"); e.code != 0 || e.errOut != "" {
		t.Errorf("control: %+v", e)
	}
}

// TestExecOffline: the name of a blocked host does not exist for a program without hosts, and the
// blocked host and the reached limits are printed. Control: a program that tries no host.
func TestExecOffline(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	for _, tier := range []string{"b", "c"} {
		e := sandboxExec(t, "", "--tier", tier, "--", "curl", "-sS", "--max-time", "20", "http://blocked.example.com/")
		if !strings.Contains(e.errOut, "Could not resolve host: blocked.example.com") ||
			!strings.Contains(e.errOut, "palyrad: Blocked host: blocked.example.com (policy: this tool runs offline). Ask the operator") {
			t.Errorf("tier %s: %+v", tier, e)
		}
		if e := sandboxExec(t, "", "--tier", tier, "--", "true"); e.code != 0 || e.errOut != "" {
			t.Errorf("tier %s, control: %+v", tier, e)
		}
	}
	e := sandboxExec(t, "", "--report", "json", "--", "python3", "-c", "[open('/dev/null') for _ in range(5000)]")
	lines := strings.Split(strings.TrimSpace(e.errOut), "\n")
	var report exec.Report
	must.Do(t, json.Unmarshal([]byte(lines[len(lines)-1]), &report))
	i := slices.IndexFunc(report.Limits, func(u tool.LimitUse) bool { return u.Effect != "" })
	if e.code != 1 || i < 0 || report.Limits[i].Limit != "open_files" || report.Limits[i].Allowed != 1024 || len(report.Limits) != 10 {
		t.Errorf("code %d, limits %+v", e.code, report.Limits)
	}
}
