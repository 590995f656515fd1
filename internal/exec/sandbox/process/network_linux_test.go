package process

import (
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

func hostRunner(t testing.TB, w *jailtest.World, leaveOut ...string) *Runner {
	r := newTestRunner(t, leaveOut...)
	r.cfg.Outward = w.Outward()
	return r
}

func newWorld(t testing.TB) *jailtest.World {
	return jailtest.NewWorld(t, map[string][]string{"service.test": {"11.0.0.7"}, "other.test": {"11.0.0.8"}})
}

func answers(t *testing.T, report sandbox.Report) []string {
	t.Helper()
	var got []string
	for _, a := range jailtest.ReadAsked(t, report.Stdout.Head) {
		got = append(got, a.Got)
	}
	return got
}

// A program reaches its hosts without a proxy configuration, and no other hosts.
func TestHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := jailtest.Ask(t, jailtest.Workspace(t), "service.test:7007", "11.0.0.7:7007", "[2600::7]:7007",
		"other.test:7007", "[2600::8]:7007", "service.test:7008", "[2600::7]:7008", "127.0.0.1:"+w.Port())
	s.Network = jailtest.Grant(t, "service.test:7007", "11.0.0.7:7007", "[2600::7]:7007")
	report := jailtest.Run(t, hostRunner(t, w), s)
	want := []string{"hello", "hello", "hello", "gaierror", "ECONNRESET", "ECONNREFUSED", "ECONNREFUSED", "ECONNREFUSED"}
	if got := answers(t, report); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v: %s", got, want, report.Stderr.Head)
	}
	i := report.Isolation
	if !slices.Equal(i.Ports, []int{80, 443, 7007}) || !slices.Equal(i.Captured, []string{"ipv4", "ipv6"}) || !jail.Empty(i.CapEff) || !jail.Empty(i.CapBnd) {
		t.Errorf("the isolation is %+v", i)
	}
	if len(w.Dialled()) != 3 || len(report.Connections) == 0 {
		t.Errorf("dialled %v, connections %v", w.Dialled(), report.Connections)
	}
	if got := sandbox.Level(egress.Strict, report.Requested, report.Applied); got != sandbox.LevelStrict && grouped() {
		t.Errorf("the level is %s", got)
	}
}

// The program has the host's network if no separate network namespace exists.
func TestHostsWithoutNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := jailtest.Ask(t, jailtest.Workspace(t), "127.0.0.1:"+w.Port())
	s.Network = jailtest.Grant(t, "service.test:7007")
	report := jailtest.Run(t, hostRunner(t, w, jail.LayerNetwork), s)
	if got := answers(t, report); !slices.Equal(got, []string{"hello"}) || report.Isolation.Ports != nil {
		t.Errorf("got %v, ports %v: %s", got, report.Isolation.Ports, report.Stderr.Head)
	}
	if got := sandbox.Level(egress.Strict, report.Requested, report.Applied); got != sandbox.LevelNone {
		t.Errorf("the level is %s", got)
	}
}

// The sandbox's own resolver resolves names, regardless of the host's settings. The file with
// this setting cannot be changed.
func TestOwnResolver(t *testing.T) {
	t.Parallel()
	s := jailtest.Shell(t, jailtest.Workspace(t), "cat /etc/resolv.conf; ! dd if=/dev/null conv=nocreat,notrunc of=/etc/resolv.conf")
	s.Network = jailtest.Grant(t, "service.test:7007")
	if got := jailtest.Output(t, hostRunner(t, newWorld(t)), s); !strings.HasPrefix(got, "nameserver 127.0.0.1\n") {
		t.Errorf("resolv.conf is %q", got)
	}
}

// The lower rung refuses a program whose hosts are restricted.
func TestLowerLevelRefusesHosts(t *testing.T) {
	t.Parallel()
	r := newAloneRunner(t)
	s := jailtest.Spec(t, openWorkspace(t), "true")
	jailtest.Output(t, r, s) // control
	s.Network = jailtest.Grant(t, "service.test:443")
	_, err := r.Run(t.Context(), s)
	if reason.Of(err) != reason.EgressDenied || !strings.Contains(err.Error(), "user namespaces") {
		t.Errorf("got %v", err)
	}
}

func TestOrdinaryUserHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here := "127.0.0.1:" + w.Port()
	result := asOrdinary(t, errand{Spec: jailtest.Ask(t, jailtest.Workspace(t), here, "127.0.0.1:1"), LayerDir: jailtest.Dir(t), Hosts: []string{here}})
	if result.Error != "" {
		t.Fatal(result.Error)
	}
	if got := answers(t, result.Report); !slices.Equal(got, []string{"hello", "ECONNREFUSED"}) {
		t.Errorf("got %v: %s", got, result.Report.Stderr.Head)
	}
}

func TestAuthorities(t *testing.T) {
	t.Parallel()
	jailtest.Authorities(t, hostRunner(t, newWorld(t)))
}

func TestBlockedHosts(t *testing.T) {
	t.Parallel()
	jailtest.Blocked(t, func(t *testing.T) sandbox.Runner { return newTestRunner(t) }, jailtest.Workspace)
}

func TestOwnPorts(t *testing.T) {
	t.Parallel()
	jailtest.OwnPorts(t, func(t *testing.T) sandbox.Runner { return newTestRunner(t) }, jailtest.Workspace)
}

// Without user namespaces an offline program runs without the name service, and hosts are refused.
func TestOfflineAlone(t *testing.T) {
	t.Parallel()
	if !grouped() {
		t.Skip("this rung requires control groups")
	}
	r := newAloneRunner(t)
	s := jailtest.Spec(t, openWorkspace(t), "true")
	s.Network = &egress.Reach{}
	jailtest.Output(t, r, s)
	s.Network = jailtest.Grant(t, "example.org:443")
	if _, err := r.Run(t.Context(), s); reason.Of(err) != reason.EgressDenied {
		t.Errorf("hosts: %v", err)
	}
}
