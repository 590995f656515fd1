//go:build linux

package fault

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/identity"
	"palyra/test/process"
)

// preparePairing returns a palyrad that keeps its address across restarts, and permits many
// codes.
func preparePairing(t *testing.T) (d *daemon, address string) {
	t.Helper()
	d = prepare(t)
	settings := strings.Replace(string(must.Get(os.ReadFile(d.Config))(t)), "[approvals]\n", "[approvals]\nmax_created_per_minute_per_run = 1000\n", 1) + "[rate_limits.pairing]\nper_second = 10000\nburst = 10000\n"
	must.Write(t, d.Config, settings)
	d.Start()
	address = d.Log().Await(process.ReadyLine, d.Ended)[1]
	d.Stop()
	must.Write(t, d.Config, strings.Replace(settings, `api = "127.0.0.1:0"`, fmt.Sprintf("api = %q", address), 1))
	d.Start()
	return d, address
}

// operator holds the API clients with which an operator admits a machine.
type operator struct {
	pairings  palyrav1connect.PairingServiceClient
	approvals palyrav1connect.ApprovalsServiceClient
	identity  palyrav1connect.IdentityServiceClient
	access    palyrav1connect.AccessServiceClient
}

func (d *daemon) operator() operator {
	d.T.Helper()
	b := must.Get(identity.ReadBundle(filepath.Join(d.State, "operator")))(d.T)
	transport := &http.Transport{TLSClientConfig: b.ClientTLS(), ForceAttemptHTTP2: true}
	d.T.Cleanup(transport.CloseIdleConnections)
	c, url := &http.Client{Transport: transport, Timeout: requestPatience}, "https://"+b.Address
	return operator{palyrav1connect.NewPairingServiceClient(c, url), palyrav1connect.NewApprovalsServiceClient(c, url), palyrav1connect.NewIdentityServiceClient(c, url), palyrav1connect.NewAccessServiceClient(c, url)}
}

// code creates a PIN for the first device of a new member.
func (o operator) code(d *daemon, member string) string {
	d.T.Helper()
	made := must.Get(o.pairings.CreatePairingCode(d.T.Context(), &palyrav1.CreatePairingCodeRequest{
		Kind: palyrav1.PairingKind_PAIRING_KIND_PIN, Member: strings.TrimPrefix(member, "user:"), NewMember: true, Roles: []string{"developer"}, AcceptLoss: true,
	}))(d.T)
	d.Secret("a PIN", made.GetSecret())
	return made.GetSecret()
}

// allow approves each waiting machine, until ctx ends or the daemon no longer answers.
func (o operator) allow(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		list, err := o.pairings.ListPairings(ctx, &palyrav1.ListPairingsRequest{})
		if err != nil {
			return
		}
		for _, p := range list.GetPairings() {
			a, err := o.approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: p.GetApprovalId()})
			if err == nil && a.GetApproval().GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
				_, _ = o.approvals.DecideApproval(ctx, &palyrav1.DecideApprovalRequest{ApprovalId: p.GetApprovalId(), Allow: true, ShownDigest: a.GetApproval().GetCallDigest()})
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// of returns the member, or nil if it does not exist, and the member's devices.
func (o operator) of(t *testing.T, member string) (m *palyrav1.Member, devices []string) {
	t.Helper()
	members := must.Get(o.access.ListMembers(t.Context(), &palyrav1.ListMembersRequest{}))(t).GetMembers()
	if i := slices.IndexFunc(members, func(m *palyrav1.Member) bool { return m.GetPrincipal() == member }); i >= 0 {
		m = members[i]
	}
	for _, dev := range must.Get(o.identity.ListDevices(t.Context(), &palyrav1.ListDevicesRequest{}))(t).GetDevices() {
		if dev.GetPrincipal() == member {
			devices = append(devices, dev.GetDeviceId())
		}
	}
	return m, devices
}

// machine is a machine without any credential, with its own home.
type machine struct {
	d             *daemon
	home, address string
}

// bundle returns the path of its credential.
func (m machine) bundle() string {
	return filepath.Join(m.home, ".config", "palyra", "gateways", "work")
}

func (m machine) palyra(wrap []string, typed string, args ...string) *exec.Cmd {
	line := slices.Concat(wrap, []string{filepath.Join(programs, "palyra")}, args)
	cmd := exec.CommandContext(m.d.T.Context(), line[0], line[1:]...)
	cmd.Env, cmd.Stdin = process.Environment(m.home), strings.NewReader(typed+"\n")
	return cmd
}

func (m machine) pair(wrap []string, pin string) process.Result {
	m.d.T.Helper()
	r := process.Finish(m.d.T, m.palyra(wrap, pin, "pair", m.address, "--name", "work"))
	m.d.Note(r)
	return r
}

// in fails the test unless the machine is admitted as the member's only device.
func (m machine) in(what string, o operator, member string) {
	m.d.T.Helper()
	r := process.Finish(m.d.T, m.palyra(nil, "", "status"))
	known, devices := o.of(m.d.T, member)
	if r.Code != 0 || known == nil || len(devices) != 1 || !strings.Contains(r.Out, devices[0]) {
		m.d.T.Errorf("%s: %s has the devices %q, and its machine is\n%s%s", what, member, devices, r.Out, r.Err)
	}
}

// TestMachineKilledWhilePairing kills `palyra pair` at each file that it creates. The same
// command with the same PIN then completes. If only the context is missing, the command prints
// how to name it. The machine is admitted, with one device.
func TestMachineKilledWhilePairing(t *testing.T) {
	t.Parallel()
	canTrace(t)
	d, address := preparePairing(t)
	o := d.operator()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go o.allow(ctx)
	kills, named := 0, 0
	for n, at := range []struct{ calls, name string }{
		{"fsync", "key.pem"}, {"renameat", "key.pem"}, {"renameat", "ca.pem"}, {"renameat", "endpoint"}, {"renameat", "cert.pem"},
		{"symlinkat", ".key.pem.link"}, {"renameat", ".key.pem.link"}, {"renameat", "contexts.json"},
	} {
		m := machine{d, filepath.Join(d.Dir, fmt.Sprintf("machine%d", n)), address}
		must.Do(t, os.Mkdir(m.home, 0o700))
		member := fmt.Sprintf("user:m%d", n)
		pin := o.code(d, member)
		s := step{at.calls, filepath.Join(m.bundle(), at.name), 1}
		if at.name == "contexts.json" {
			s.path = filepath.Join(filepath.Dir(filepath.Dir(m.bundle())), at.name)
		}
		if at.calls == "fsync" {
			s.path = m.bundle()
		}
		if m.pair(s.kill(), pin).Code != 0 {
			kills++
		} else {
			t.Errorf("nothing is killed at %s", s)
		}
		r := m.pair(nil, pin)
		if name := regexp.MustCompile("`palyra (context add [^`]+)`, then `palyra (context use [^`]+)`").FindStringSubmatch(r.Err); r.Code != 0 && name != nil {
			named++
			for _, line := range name[1:] {
				process.Finish(t, m.palyra(nil, "", strings.Fields(line)...)).Want(t, 0)
			}
		} else if r.Code != 0 {
			t.Fatalf("after a kill at %s palyra pair exits %d\n%s%s", s, r.Code, r.Out, r.Err)
		}
		if left := must.Get(filepath.Glob(filepath.Join(m.bundle(), ".*")))(t); len(left) > 0 && r.Code == 0 {
			t.Errorf("after a kill at %s and a pairing there is %q", s, left)
		}
		m.in(fmt.Sprintf("after a kill at %s", s), o, member)
	}
	t.Logf("%d kills, after %d of which only the context was missing", kills, named)
	stop()
	d.Stop()
	must.Check(t, d.verify())
}

// TestGatewayKilledWhilePairing kills palyrad at each write and sync of its journal while a
// machine pairs. Afterwards either the member has its device and the machine is admitted, or
// there is neither member nor device. In the latter case the machine prints the next step, and
// a new code admits it.
func TestGatewayKilledWhilePairing(t *testing.T) {
	t.Parallel()
	canTrace(t)
	d, address := preparePairing(t)
	kills, made := 0, 0
	for tries, n, calls := 0, 1, []string{"pwrite64", "fsync"}; len(calls) > 0; n++ {
		if tries++; tries > 40 {
			t.Fatal("palyrad is killed each time")
		}
		m := machine{d, filepath.Join(d.Dir, fmt.Sprintf("machine%d", tries)), address}
		must.Do(t, os.Mkdir(m.home, 0o700))
		member := fmt.Sprintf("user:m%d", tries)
		o := d.operator()
		pin := o.code(d, member)
		heal := d.inject(calls[0], fmt.Sprintf("signal=SIGKILL:when=%d", n), d.store()+"-wal")
		ctx, stop := context.WithCancel(t.Context())
		go o.allow(ctx)
		pairing := process.Begin(t, m.palyra(nil, pin, "pair", address, "--name", "work"))
		select {
		case <-pairing.Ended:
		case <-d.Ended:
		}
		stop()
		if r := pairing.Err.String(); strings.Contains(r, "NOT_CONNECTED") && !process.Ended(d.Ended) {
			t.Fatalf("palyrad goes on, and palyra pair says\n%s", r)
		}
		killed := false
		select {
		case <-d.Ended:
			killed = true
		default:
		}
		heal()
		if !killed {
			pairing.Wait(t).Want(t, 0)
			m.in("without a kill", o, member)
			calls, n = calls[1:], 0
			continue
		}
		kills++
		must.Check(t, d.verify())
		d.Start()
		o = d.operator()
		r := pairing.Wait(t)
		d.Note(r)
		known, devices := o.of(t, member)
		switch {
		case r.Code == 0:
			made++
			m.in(fmt.Sprintf("after a kill at %s %d", calls[0], n), o, member)
		case known != nil || len(devices) != 0:
			t.Errorf("after a kill at %s %d there are %v and the devices %q, and palyra pair says\n%s", calls[0], n, known, devices, r.Err)
		case !strings.Contains(r.Err, "next: "):
			t.Errorf("after a kill at %s %d palyra pair exits %d with\n%s", calls[0], n, r.Code, r.Err)
		default:
			again, cancel := context.WithCancel(t.Context())
			go o.allow(again)
			m.pair(nil, o.code(d, member)).Want(t, 0)
			cancel()
			m.in(fmt.Sprintf("paired anew after a kill at %s %d", calls[0], n), o, member)
		}
	}
	if kills < 4 {
		t.Errorf("%d kills only", kills)
	}
	t.Logf("%d kills, after %d of which the device was there", kills, made)
	d.Stop()
	must.Check(t, d.verify())
}
