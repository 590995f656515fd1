package bubblewrap

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// newWorld returns a world with one named machine that has IPv4 and IPv6 addresses, and another
// one.
func newWorld(t testing.TB) *jailtest.World {
	return jailtest.NewWorld(t, map[string][]string{
		"service.test": {"11.0.0.7", "2600::7"},
		"other.test":   {"11.0.0.8"},
	})
}

func hostRunner(t testing.TB, w *jailtest.World, without ...string) *Runner {
	r := newTestRunner(t, without...)
	r.cfg.Outward = w.Outward()
	return r
}

// A program reaches its hosts without a proxy configuration, and no other hosts.
func TestHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := hostRunner(t, w)
	s := jailtest.Ask(t, jailtest.Workspace(t),
		"service.test:7007", "11.0.0.7:7007", "[2600::7]:7007", // allowed
		"other.test:7007", "11.0.0.8:7007", "[2600::8]:7007", "127.0.0.1:7007", // other hosts
		"service.test:7008", "11.0.0.7:7008", "[2600::7]:7008", "127.0.0.1:"+w.Port()) // other ports
	s.Network = jailtest.Grant(t, "service.test:7007", "11.0.0.7:7007", "[2600::7]:7007")
	report := jailtest.Run(t, r, s)
	asked := jailtest.ReadAsked(t, report.Stdout.Head)
	for i, want := range []string{
		"hello", "hello", "hello",
		"gaierror", "ECONNRESET", "ECONNRESET", "ECONNRESET",
		"ECONNREFUSED", "ECONNREFUSED", "ECONNREFUSED", "ECONNREFUSED",
	} {
		if i >= len(asked) || asked[i].Got != want {
			t.Fatalf("got %v, want %s of number %d\n%s", asked, want, i, report.Stderr.Head)
		}
	}
	if got := w.Dialled(); len(got) != 3 || slices.Contains(got, "11.0.0.8:7007") {
		t.Errorf("dialled %v", got)
	}
	var verdicts []string
	for _, c := range report.Connections {
		if c.Leg == egress.LegTransparent {
			verdicts = append(verdicts, c.Host+" "+c.Verdict)
		}
	}
	want := []string{"service.test allowed", "11.0.0.7 allowed", "2600::7 allowed", "11.0.0.8 denied", "2600::8 denied", "127.0.0.1 denied"}
	if !slices.Equal(verdicts, want) || report.ConnectionsMissed != 0 {
		t.Errorf("the connections are %v, %d missed, want %v", verdicts, report.ConnectionsMissed, want)
	}
	checkHeld(t, report)
}

// checkHeld checks the report of a run with restricted hosts.
func checkHeld(t *testing.T, report sandbox.Report) {
	t.Helper()
	i := report.Isolation
	if !slices.Equal(i.Ports, []int{80, 443, 7007}) || !slices.Equal(i.Captured, []string{"ipv4", "ipv6"}) {
		t.Errorf("ports %v, captured %v", i.Ports, i.Captured)
	}
	if !jail.Empty(i.CapEff) || !jail.Empty(i.CapBnd) || !jail.Empty(i.CapPrm) {
		t.Errorf("capabilities are left: %+v", i)
	}
	if got := sandbox.Level(egress.Strict, report.Requested, report.Applied); got != sandbox.LevelStrict && len(report.Downgrades) == 0 {
		t.Errorf("the level is %s, applied %v of %v", got, report.Applied, report.Requested)
	}
}

// A program gets an error immediately if no listener exists, for any protocol.
func TestRefusedAtOnce(t *testing.T) {
	t.Parallel()
	r := hostRunner(t, newWorld(t))
	target := "11.0.0.9:81"
	s := jailtest.Ask(t, jailtest.Workspace(t), slices.Repeat([]string{target}, 50)...)
	s.Network = jailtest.Grant(t, "service.test:7007")
	fastest := time.Hour
	for _, a := range jailtest.ReadAsked(t, jailtest.Run(t, r, s).Stdout.Head) {
		if a.Got != "ECONNREFUSED" {
			t.Errorf("got %v", a)
		}
		fastest = min(fastest, time.Duration(a.Millis)*time.Millisecond)
	}
	if fastest >= 10*time.Millisecond {
		t.Errorf("the fastest of fifty took %s", fastest)
	}
}

// grasp tries to access the proxy's listeners, and prints what succeeds.
const grasp = `import os, socket, time
def attempt(name, f):
    try:
        if f(): print(name)
    except OSError as e:
        pass
def take(address, port, family=socket.AF_INET):
    s = socket.socket(family)
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT): s.setsockopt(socket.SOL_SOCKET, option, 1)
    s.bind((address, port)); s.listen()
    return True
def datagram(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("11.0.0.7", port))
    for _ in range(1000): # until one is told that an earlier one was refused
        s.send(b"x"); time.sleep(0.01)
    return True
def names():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("127.0.0.1", 53)); return True
for port in (53, 443, 1080, 3128, 7007):
    for address in ("127.0.0.1", "0.0.0.0"):
        attempt("took %s:%d" % (address, port), lambda: take(address, port))
    if port in (443, 7007): # those of every address
        attempt("took 11.0.0.7:%d" % port, lambda: take("11.0.0.7", port))
        attempt("took [::]:%d" % port, lambda: take("::", port, socket.AF_INET6))
attempt("took the names", names)
attempt("udp 443", lambda: datagram(443))
attempt("udp 53", lambda: datagram(53))
attempt("unix", lambda: socket.socket(socket.AF_UNIX))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
for pid in ("self", "1"):
    attempt("sockets of " + pid, lambda: [n for n in os.listdir("/proc/%s/fd" % pid) if os.readlink("/proc/%s/fd/%s" % (pid, n)).startswith("socket:")])
attempt("control", lambda: take("0.0.0.0", 7008))
`

// A program cannot access the listeners of the proxy. It may listen at unused ports.
func TestListenersAreOutOfReach(t *testing.T) {
	t.Parallel()
	r := hostRunner(t, newWorld(t))
	for name, hosts := range map[string][]string{
		"ports":       {"service.test:443", "service.test:7007"},
		"those of us": {"service.test:443", "service.test:7007", "service.test:53", "service.test:1080", "service.test:3128"},
	} {
		s := jailtest.Spec(t, jailtest.Workspace(t), "python3", "-c", grasp)
		s.Network = jailtest.Grant(t, hosts...)
		if got := jailtest.Output(t, r, s); got != "control\n" {
			t.Errorf("%s: a program could: %s", name, got)
		}
	}
	// Control: offline, the same program can bind the unprivileged ports.
	s := jailtest.Spec(t, jailtest.Workspace(t), "python3", "-c", grasp)
	if got := jailtest.Output(t, r, s); !strings.Contains(got, "took 127.0.0.1:3128") || !strings.Contains(got, "took [::]:7007") {
		t.Errorf("the control could only: %s", got)
	}
}

// A port that both a host and a service of the sandbox use works for both.
func TestPortsOfServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := jailtest.Ask(t, jailtest.Workspace(t), "service.test:3128", "service.test:1080", "service.test:53")
	s.Network = jailtest.Grant(t, "service.test:3128", "service.test:1080", "service.test:53")
	for _, a := range jailtest.ReadAsked(t, jailtest.Run(t, hostRunner(t, w), s).Stdout.Head) {
		if a.Got != "hello" {
			t.Errorf("got %v", a)
		}
	}
	if got := w.Dialled(); len(got) != 3 {
		t.Errorf("dialled %v", got)
	}
}

// listening prints its port, and then sends a word to every client.
const listening = `import socket
s = socket.create_server(("0.0.0.0", 0))
print(s.getsockname()[1], flush=True)
while True: s.accept()[0].sendall(b"from inside")
`

// A listener inside is not reachable from outside. Control: it is reachable if the program
// shares the host's network.
func TestListeningInside(t *testing.T) {
	t.Parallel()
	for without, reached := range map[string]bool{"": false, jail.LayerNetwork: true} {
		s := jailtest.Spec(t, jailtest.Workspace(t), "python3", "-c", listening)
		s.Network = jailtest.Grant(t, "service.test:7007")
		ctx, cancel := context.WithCancel(t.Context())
		var word string
		s.Output = func(stream string, port []byte) {
			if stream == "stdout" {
				word = readBanner("127.0.0.1:" + strings.TrimSpace(string(port)))
				cancel()
			}
		}
		report, err := hostRunner(t, newWorld(t), without).Run(ctx, s)
		cancel()
		if got := word == "from inside"; got != reached || len(report.Stdout.Head) == 0 {
			t.Errorf("without %q: reached %t, %v: %s", without, got, err, report.Stderr.Head)
		}
	}
}

// readBanner returns the first bytes that a server sends. Outside, another process may use the
// program's port and send nothing.
func readBanner(address string) string {
	conn, err := net.DialTimeout("tcp4", address, must.Patience)
	if err != nil {
		return ""
	}
	defer conn.Close()
	word := make([]byte, len("from inside"))
	_ = conn.SetReadDeadline(time.Now().Add(must.Patience))
	_, _ = io.ReadFull(conn, word)
	return string(word)
}

// The program has the host's network if no separate network namespace exists. Its hosts are not
// restricted there.
func TestHostsWithoutNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := jailtest.Ask(t, jailtest.Workspace(t), "127.0.0.1:"+w.Port())
	s.Network = jailtest.Grant(t, "service.test:7007")
	report := jailtest.Run(t, hostRunner(t, w, jail.LayerNetwork), s)
	if asked := jailtest.ReadAsked(t, report.Stdout.Head); len(asked) != 1 || asked[0].Got != "hello" {
		t.Errorf("got %v: %s", asked, report.Stderr.Head)
	}
	if report.Connections != nil || report.Isolation.Ports != nil || len(w.Dialled()) > 0 {
		t.Errorf("connections %v, ports %v", report.Connections, report.Isolation.Ports)
	}
	if got := sandbox.Level(egress.Strict, report.Requested, report.Applied); got != sandbox.LevelNone {
		t.Errorf("the level is %s", got)
	}
}

// The program is stopped if the proxy fails.
//
// Not parallel: it searches for processes in the control groups of every run of the process.
func TestProxyFails(t *testing.T) {
	w := newWorld(t)
	r := hostRunner(t, w)
	r.cfg.Outward.Dial = func(context.Context, string, string) (net.Conn, error) { panic("a fault") }
	s := jailtest.Shell(t, jailtest.Workspace(t), "exec 3<>/dev/tcp/service.test/7007; echo hello >&3; sleep 60")
	s.Network = jailtest.Grant(t, "service.test:7007")
	report, err := r.Run(t.Context(), s)
	if reason.Of(err) != reason.SandboxUnavailable || report.ExitCode != nil || report.TimedOut {
		t.Errorf("%v, ended with %s", err, jailtest.Ending(report))
	}
	if known := new(reason.Error); !errors.As(err, &known) || strings.Contains(known.Message, "goroutine") {
		t.Errorf("callers see %q", known.Message)
	}
	noGroupsLeft(t, r)
}

// A grant that no sandbox can enforce is refused before a sandbox is built.
func TestImpossibleHosts(t *testing.T) {
	t.Parallel()
	r := newTestRunner(t)
	s := jailtest.Spec(t, jailtest.Workspace(t), "true")
	for name, c := range map[string]struct {
		mode  egress.Mode
		hosts []string
		want  reason.Code
	}{
		"any port":     {egress.Strict, []string{"service.test"}, reason.HostInvalid},
		"another mode": {egress.Preflight, []string{"service.test:443"}, reason.InvalidInput},
		"fine":         {egress.Strict, []string{"service.test:443"}, ""}, // control
	} {
		s.Egress, s.Network = c.mode, jailtest.Grant(t, c.hosts...)
		if _, err := r.Run(t.Context(), s); (err != nil || c.want != "") && reason.Of(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The connections to the hosts need no privileges of the daemon.
func TestOrdinaryUserHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := jailtest.Workspace(t)
	here := "127.0.0.1:" + w.Port()
	result := asUser(t, root, jailtest.Ask(t, root, here, "127.0.0.1:1", "localhost:"+w.Port()), here)
	if result.Error != "" {
		t.Fatal(result.Error)
	}
	var got []string
	for _, a := range jailtest.ReadAsked(t, result.Report.Stdout.Head) {
		got = append(got, a.Got)
	}
	if want := []string{"hello", "ECONNREFUSED", "hello"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: %s", got, want, result.Report.Stderr.Head)
	}
	if len(result.Report.Connections) == 0 || result.Report.Connections[0].Verdict != egress.VerdictAllowed {
		t.Errorf("the connections are %v", result.Report.Connections)
	}
}

// A prepared sandbox has its listeners, and serves one program.
func TestPreparedHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, _ := preparedRunner(t, 2)
	r.cfg.Outward = w.Outward()
	s := copied(jailtest.Ask(t, jailtest.Workspace(t), "service.test:7007", "other.test:7007"))
	s.Network = jailtest.Grant(t, "service.test:7007")
	for run := range 3 {
		report := jailtest.Run(t, r, s)
		asked := jailtest.ReadAsked(t, report.Stdout.Head)
		if report.Isolation.Prepared != (run > 0) || len(asked) != 2 || asked[0].Got != "hello" || asked[1].Got != "gaierror" {
			t.Errorf("prepared %t: %v, %s", report.Isolation.Prepared, asked, report.Stderr.Head)
		}
		if n := len(report.Connections); n == 0 || n > 4 {
			t.Errorf("connections of run %d: %v", run, report.Connections)
		}
		checkHeld(t, report)
		r.pool.settle()
	}
}

// No resource of a session outlives its program, and none outlives an unused sandbox.
//
// Not parallel: it counts the open file descriptors of the process.
func TestHostsLeaveNothing(t *testing.T) {
	w := newWorld(t)
	r, _ := preparedRunner(t, 1)
	r.cfg.Outward = w.Outward()
	run := func() {
		s := jailtest.Ask(t, jailtest.Workspace(t), "service.test:7007", "11.0.0.8:7007")
		s.Workspace, s.Network = sandbox.ReadOnly, jailtest.Grant(t, "service.test:7007")
		jailtest.Run(t, r, s)
		r.pool.settle() // never used: the next workspace is a different one
		r.Invalidate()
		r.pool.keepers.Wait()
	}
	run()
	before := descriptors(t)
	for range 3 {
		run()
	}
	// The awaited goroutines must still return, and the world's server must detect that its
	// clients have disconnected.
	must.Eventually(t, fmt.Sprintf("no goroutine of the proxy, and %d descriptors", before), func() (bool, string) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		after := descriptors(t)
		return !strings.Contains(string(stacks), "egress/proxy") && after <= before, fmt.Sprintf("%d descriptors; goroutines:\n%s", after, stacks)
	})
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries := must.Get(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// Different grants have separate sandboxes.
func TestPreparedPerGrant(t *testing.T) {
	t.Parallel()
	grant := func(edit func(*egress.Reach), hosts ...string) *egress.Reach {
		g := jailtest.Grant(t, hosts...)
		if edit != nil {
			edit(g)
		}
		return g
	}
	const host = "service.test:443"
	rule := jailtest.Grant(t, host).Rules.Allow[0]
	other := jailtest.Grant(t, "*.service.test:443").Rules.Allow[0]
	secret := egress.Secret{Name: "token", Env: "TOKEN", Header: "Authorization", Hosts: []egress.Rule{rule}}
	with := func(edit func(*egress.Secret)) *egress.Reach {
		s := secret
		edit(&s)
		return grant(func(g *egress.Reach) { g.Secrets = []egress.Secret{s} }, host)
	}
	seen := map[string]int{}
	for i, g := range []*egress.Reach{
		nil, grant(nil), grant(nil, host), grant(nil, "service.test:80"), grant(nil, host, "*.service.test:443"),
		grant(func(g *egress.Reach) { g.Rules.Deny = []egress.Rule{other} }, host),
		grant(func(g *egress.Reach) { g.Inspect = []egress.Inspection{{Host: rule}} }, host),
		grant(func(g *egress.Reach) { g.Inspect = []egress.Inspection{{Host: rule, Methods: []string{"GET"}}} }, host),
		grant(func(g *egress.Reach) { g.Inspect = []egress.Inspection{{Host: rule, Paths: []string{"/a"}}} }, host),
		grant(func(g *egress.Reach) { g.Budget.Connections = 1 }, host),
		grant(func(g *egress.Reach) { g.Budget.BytesOut = 1 }, host),
		with(func(*egress.Secret) {}),
		with(func(s *egress.Secret) { s.Name = "other" }),
		with(func(s *egress.Secret) { s.Env = "" }),
		with(func(s *egress.Secret) { s.Header = "X-Token" }),
		with(func(s *egress.Secret) { s.Hosts = []egress.Rule{rule, other} }),
	} {
		k := key(sandbox.Spec{Network: g}, jail.Directory{}.Identity)
		if was, ok := seen[k]; ok {
			t.Errorf("grants %d and %d have one key: %s", was, i, k)
		}
		seen[k] = i
	}
	if again := key(sandbox.Spec{Network: grant(nil, host)}, jail.Directory{}.Identity); seen[again] != 2 { // control
		t.Errorf("the same grant has another key: %s", again)
	}
}

func TestAuthorities(t *testing.T) {
	t.Parallel()
	jailtest.Authorities(t, hostRunner(t, newWorld(t)))
}

// vault contains one secret.
type vault string

func (v vault) Secret(context.Context, string) ([]byte, error) { return []byte(v), nil }

// A used secret is removed from the program's output, however the program obtained it.
func TestOutputIsScrubbed(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("curl is not installed: run make test without PKG, or apt-get install curl")
	}
	const value = "the-real-value"
	got := make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("X-Token") }))
	t.Cleanup(server.Close)
	r := hostRunner(t, jailtest.NewWorld(t, map[string][]string{"example.com": {"11.0.0.7"}})) // the names in the certificate
	r.cfg.Outward.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	r.cfg.Outward.Roots = x509.NewCertPool()
	r.cfg.Outward.Roots.AddCert(server.Certificate())
	s := jailtest.Shell(t, jailtest.Workspace(t), `curl -sS -H "X-Token: $TOKEN" https://example.com/ && echo "`+value+`" && echo "<`+value+`>" >&2`)
	s.Network = jailtest.Grant(t, "example.com:443")
	s.Network.Secrets = []egress.Secret{{Name: "token", Env: "TOKEN", Header: "X-Token", Hosts: s.Network.Rules.Allow, Source: vault(value)}}
	var seen []byte
	s.Output = func(_ string, chunk []byte) { seen = append(seen, chunk...) }
	report := jailtest.Run(t, r, s)
	if *report.ExitCode != 0 {
		t.Fatalf("%s%s, connections %v", report.Stdout.Head, report.Stderr.Head, report.Connections)
	}
	if sent := <-got; sent != value {
		t.Errorf("the server got %q", sent)
	}
	for name, out := range map[string]string{"stdout": string(report.Stdout.Head), "stderr": string(report.Stderr.Head), "chunks": string(seen)} {
		if strings.Contains(out, value) || !strings.Contains(out, "palyra-sec-") {
			t.Errorf("%s: %q", name, out)
		}
	}
}

func TestBlockedHosts(t *testing.T) {
	t.Parallel()
	jailtest.Blocked(t, func(t *testing.T) sandbox.Runner { return newTestRunner(t) }, jailtest.Workspace)
}

func TestOwnPorts(t *testing.T) {
	t.Parallel()
	jailtest.OwnPorts(t, func(t *testing.T) sandbox.Runner { return newTestRunner(t) }, jailtest.Workspace)
}
