package jailtest

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/proxy"
	"palyra/internal/exec/sandbox"
)

// Grant returns a Reach that allows some hosts.
func Grant(t testing.TB, hosts ...string) *egress.Reach {
	t.Helper()
	allow := must.Get(egress.ParseRules(hosts))(t)
	return &egress.Reach{Rules: egress.Rules{Allow: allow}}
}

// World simulates the network outside sandboxes. Every address leads to one echo server on
// loopback, so that no traffic leaves the machine.
type World struct {
	Names  map[string][]netip.Addr
	server net.Listener
	// clients tracks the connections of the server.
	clients sync.WaitGroup

	mu      sync.Mutex
	dialled []string
}

// NewWorld returns a World with some names, each with addresses.
func NewWorld(t testing.TB, names map[string][]string) *World {
	t.Helper()
	w := &World{Names: map[string][]netip.Addr{}}
	for name, addrs := range names {
		for _, a := range addrs {
			w.Names[name] = append(w.Names[name], netip.MustParseAddr(a))
		}
	}
	w.server = must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	w.clients.Go(w.serve)
	t.Cleanup(func() {
		w.server.Close()
		w.clients.Wait()
	})
	return w
}

func (w *World) serve() {
	for {
		conn, err := w.server.Accept()
		if err != nil {
			return
		}
		w.clients.Go(func() {
			defer conn.Close()
			for in := bufio.NewScanner(conn); in.Scan(); {
				if _, err := fmt.Fprintln(conn, in.Text()); err != nil {
					return
				}
			}
		})
	}
}

// Port is the server's port on 127.0.0.1.
func (w *World) Port() string {
	_, port, _ := net.SplitHostPort(w.server.Addr().String())
	return port
}

// Outward returns the outward network of the proxy for sandboxes.
func (w *World) Outward() proxy.Outward {
	return proxy.Outward{
		Resolver:   w,
		Interfaces: func() ([]netip.Addr, error) { return nil, nil },
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			w.mu.Lock()
			w.dialled = append(w.dialled, address)
			w.mu.Unlock()
			return new(net.Dialer).DialContext(ctx, "tcp4", w.server.Addr().String())
		},
	}
}

// LookupNetIP implements egress.Resolver.
func (w *World) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if list := w.Names[strings.TrimSuffix(host, ".")]; list != nil {
		return list, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// Dialled returns the dialed addresses so far, sorted.
func (w *World) Dialled() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(slices.Values(w.dialled))
}

// asking connects to each target, sends hello and prints the result: the returned line or the
// name of the error, and the time in milliseconds.
const asking = `import errno, socket, sys, time
for target in sys.argv[1:]:
    host, _, port = target.rpartition(":")
    start = time.monotonic()
    try:
        with socket.create_connection((host.strip("[]"), int(port)), 30) as s:
            s.sendall(b"hello\n")
            got = s.makefile("r").readline().strip() or "nothing"
    except OSError as e:
        got = errno.errorcode.get(e.errno, type(e).__name__)
    print(target, got, int(1000 * (time.monotonic() - start)), flush=True)
`

// Ask returns a spec for a program that tries to reach targets, in that order.
func Ask(t testing.TB, root string, targets ...string) sandbox.Spec {
	t.Helper()
	return Spec(t, root, append([]string{"python3", "-c", asking}, targets...)...)
}

// Asked is the result for one target.
type Asked struct {
	Target, Got string
	Millis      int
}

// ReadAsked parses the output of Ask.
func ReadAsked(t testing.TB, out []byte) []Asked {
	t.Helper()
	var list []Asked
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			t.Fatalf("the program printed %q", out)
		}
		took := must.Get(strconv.Atoi(f[2]))(t)
		list = append(list, Asked{f[0], f[1], took})
	}
	return list
}

// Authorities tests the trusted authorities of programs with inspected hosts. A program finds
// the file by its variables, cannot change the file, and may set the variables to another file.
func Authorities(t *testing.T, r sandbox.Runner) {
	t.Helper()
	s := Shell(t, Workspace(t), `grep -c BEGIN "$SSL_CERT_FILE"; ! echo x >> "$SSL_CERT_FILE"; echo "$CURL_CA_BUNDLE"`)
	s.Network = Grant(t, "service.test:443")
	s.Network.Inspect = []egress.Inspection{{Host: s.Network.Rules.Allow[0]}}
	s.Env = []string{"CURL_CA_BUNDLE=mine"}
	got := strings.Fields(Output(t, r, s))
	if len(got) != 2 || got[0] == "0" || got[1] != "mine" {
		t.Errorf("got %v", got)
	}
	if got := Output(t, r, Shell(t, s.WorkspaceRoot, `echo "<$SSL_CERT_FILE>"`)); got != "<>\n" { // control
		t.Errorf("without inspection: %s", got)
	}
}

// Blocked verifies what the tools of a developer print when policy denies a host, and that the
// report names it. A denied name does not exist. With hosts, a denied address answers. In the
// control the program has no network, and nothing records an attempt.
func Blocked(t *testing.T, runner func(*testing.T) sandbox.Runner, workspace func(testing.TB) string) {
	t.Helper()
	for name, network := range map[string]*egress.Reach{"offline": {}, "with hosts": Grant(t, "example.org:443"), "no network": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blocked(t, runner(t), network, workspace)
		})
	}
}

func blocked(t *testing.T, r sandbox.Runner, network *egress.Reach, workspace func(testing.TB) string) {
	t.Helper()
	const host, address = "blocked.example.com", "11.9.9.9"
	type row struct {
		argv []string
		// want is the part of a message that names the refusal.
		want, target string
	}
	rows := map[string]row{
		"curl":   {[]string{"curl", "-sS", "--max-time", "20", "http://" + host + "/"}, "Could not resolve host", host},
		"git":    {[]string{"git", "ls-remote", "https://" + host + "/x.git"}, "Could not resolve host", host},
		"python": {[]string{"python3", "-c", "import urllib.request\nurllib.request.urlopen('https://" + host + "/', timeout=20)"}, "Name or service not known", host},
		"node":   {[]string{"node", "-e", "require('https').get('https://" + host + "/').on('error', e => console.error(e.message))"}, "ENOTFOUND", host},
		"a listener of the run": {[]string{"python3", "-c", "import socket\nown = socket.create_server(('', 8080))\nsocket.create_connection(('" + host + "', 8080), 20)"},
			"Name or service not known", host},
	}
	if network != nil && len(network.Hosts()) > 0 {
		maps.Copy(rows, map[string]row{
			"address, curl http":  {[]string{"curl", "-sS", "--max-time", "20", "http://" + address + "/"}, "Blocked host: " + address + ":80 (policy: ", address + ":80"},
			"address, curl https": {[]string{"curl", "-sS", "--max-time", "20", "https://" + address + "/"}, "access denied", address + ":443"},
			"address, git":        {[]string{"git", "ls-remote", "https://" + address + "/x.git"}, "denied", address + ":443"},
			"address, python":     {[]string{"python3", "-c", "import urllib.request\nurllib.request.urlopen('https://" + address + "/', timeout=20)"}, "ACCESS_DENIED", address + ":443"},
			"address, node":       {[]string{"node", "-e", "require('https').get('https://" + address + "/').on('error', e => console.error(e.message))"}, "access denied", address + ":443"},
			"address, python http": {[]string{"python3", "-c", "import urllib.request, urllib.error\ntry:\n    urllib.request.urlopen('http://" + address + "/', timeout=20)\nexcept urllib.error.HTTPError as e:\n    print(e.code, e.read().decode())"},
				"403 Blocked host: " + address + ":80 (policy: ", address + ":80"},
		})
	}
	for name, c := range rows {
		t.Run(name, func(t *testing.T) {
			needs.Programs(t, c.argv[0])
			s := Spec(t, workspace(t), c.argv...)
			s.Network = network
			start := time.Now()
			report := Run(t, r, s)
			text := string(report.Stdout.Head) + string(report.Stderr.Head)
			list, _ := report.Refused()
			i := slices.IndexFunc(list, func(refusal tool.Refusal) bool { return refusal.By == "network" && refusal.Operation == c.target })
			if (i >= 0) != (network != nil) || network != nil && !strings.Contains(text, c.want) {
				t.Errorf("printed %.300q, refused %+v", text, list)
			}
			if took := time.Since(start); network != nil && took > 15*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// OwnPorts verifies that palyrad does not answer at the ports of the web on loopback: offline it does
// not listen there, and with hosts it only resets.
func OwnPorts(t *testing.T, runner func(*testing.T) sandbox.Runner, workspace func(testing.TB) string) {
	t.Helper()
	for name, network := range map[string]*egress.Reach{"offline": {}, "with hosts": Grant(t, "example.org:80", "example.org:443")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ownPorts(t, runner(t), network, workspace)
		})
	}
}

func ownPorts(t *testing.T, r sandbox.Runner, network *egress.Reach, workspace func(testing.TB) string) {
	t.Helper()
	want, ports := "ECONNREFUSED", 0
	if len(network.Hosts()) > 0 {
		want, ports = "ECONNRESET", 2
	}
	s := Spec(t, workspace(t), "python3", "-c", strings.Replace(asking, "hello", "GET / HTTP/1.0", 1), "127.0.0.1:80", "127.0.0.1:443")
	s.Network = network
	report := Run(t, r, s)
	asked := ReadAsked(t, report.Stdout.Head)
	if len(asked) != 2 || asked[0].Got != want || asked[1].Got != want || len(report.Isolation.Ports) != ports {
		t.Errorf("got %v at ports %v: %s", asked, report.Isolation.Ports, report.Stderr.Head)
	}
}
