//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// These are the addresses of the two hosts on the link between them.
const (
	gatewayHost = "10.77.0.1"
	otherHost   = "10.77.0.2"
)

// host is a network namespace, in the test's own user namespace. The test changes nothing of
// this machine's network, whether or not it runs as root.
type host struct {
	t *testing.T
	// enter is the prefix of a command line that runs in the namespace.
	enter []string
	home  string
}

// newHosts returns two hosts with a link between them, and no other network. Both can access
// the given directories.
func newHosts(t *testing.T, directories ...string) (gateway, other *host) {
	t.Helper()
	homes := []string{t.TempDir(), t.TempDir()}
	hold := func(home string, wrap ...string) *host {
		held := process.Begin(t, exec.Command(wrap[0], append(wrap[1:], "sh", "-c", "echo ready $$; exec sleep infinity")...))
		ready := held.Out.Await(regexp.MustCompile(`ready (\d+)`), held.Ended)
		if ready == nil {
			t.Fatalf("there is no namespace for a host (enable unprivileged user namespaces): %s", held.Err)
		}
		return &host{t: t, enter: []string{"nsenter", "--target", ready[1], "--user", "--net", "--mount", "--preserve-credentials", "--"}, home: home}
	}
	gateway = hold(homes[0], process.OwnRoot(t, append(directories, homes...), "--unshare-net")...)
	other = hold(homes[1], append(slices.Clone(gateway.enter), "unshare", "--net")...)
	gateway.run("ip", "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", other.enter[2]).Want(t, 0)
	for h, address := range map[*host]string{gateway: gatewayHost, other: otherHost} {
		h.run("ip", "link", "set", "lo", "up").Want(t, 0)
		h.run("ip", "address", "add", address+"/24", "dev", "wire").Want(t, 0)
		h.run("ip", "link", "set", "wire", "up").Want(t, 0)
	}
	return gateway, other
}

func (h *host) command(program string, args ...string) *exec.Cmd {
	line := append(append(slices.Clone(h.enter), program), args...)
	cmd := exec.CommandContext(h.t.Context(), line[0], line[1:]...)
	cmd.Env = process.Environment(h.home)
	return cmd
}

func (h *host) run(program string, args ...string) process.Result {
	h.t.Helper()
	return process.Finish(h.t, h.command(program, args...))
}

// palyra runs palyra on the host, with only the settings of the host's home.
func (h *host) palyra(args ...string) process.Result {
	h.t.Helper()
	return h.run(filepath.Join(programs, "palyra"), args...)
}

// pair starts `palyra pair` with a PIN, and waits until it waits for approval.
func (h *host) pair(address, pin string) (waiting *process.Child, digits string) {
	h.t.Helper()
	cmd := h.command(filepath.Join(programs, "palyra"), "pair", address, "--name", "work")
	cmd.Stdin = strings.NewReader(pin + "\n")
	waiting = process.Begin(h.t, cmd)
	m := waiting.Err.Await(regexp.MustCompile(`(?s)comparison code: (\d{3} \d{3}).*waiting for approval`), waiting.Ended)
	if m == nil {
		h.t.Fatalf("palyra pair does not wait: %s%s", waiting.Out, waiting.Err)
	}
	return waiting, m[1]
}

// remote is a gateway on its own host, with its local operator.
type remote struct {
	*gateway
	host *host
}

func (r *remote) operator(args ...string) process.Result {
	r.T.Helper()
	cmd := r.host.command(filepath.Join(programs, "palyra"), args...)
	cmd.Env = append(cmd.Env, "PALYRA_CONFIG="+r.Config)
	return process.Finish(r.T, cmd)
}

func (r *remote) operatorJSON(into any, args ...string) {
	r.T.Helper()
	res := r.operator(append(args, "-o", "json")...)
	res.Want(r.T, 0)
	must.Do(r.T, json.Unmarshal([]byte(res.Out), into))
}

type paired struct {
	ApprovalID string `json:"approval_id"`
	Comparison string `json:"comparison"`
	Address    string `json:"address"`
}

// allow has the operator compare the digits, and approves the pinned digest.
func (r *remote) allow(digits string) {
	r.T.Helper()
	var list struct {
		Items []paired `json:"items"`
	}
	r.operatorJSON(&list, "pairing", "list")
	i := slices.IndexFunc(list.Items, func(p paired) bool { return p.Comparison == digits && p.Address == otherHost })
	if i < 0 {
		r.T.Fatalf("the operator does not see %s from %s: %+v", digits, otherHost, list)
	}
	shown := r.operator("approvals", "show", list.Items[i].ApprovalID)
	digest := regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(shown.Out)
	if !strings.Contains(shown.Out, "device_pairing") || !strings.Contains(shown.Out, digits) {
		r.T.Errorf("the question is:\n%s", shown.Out)
	}
	r.operator("approvals", "decide", list.Items[i].ApprovalID, "--allow", "once", "--digest", digest).Want(r.T, 0)
}

func (r *remote) code(args ...string) string {
	r.T.Helper()
	var made struct {
		Secret string `json:"secret"`
	}
	r.operatorJSON(&made, append([]string{"pairing", "code", "--yes"}, args...)...)
	r.Secret("the secret of a pairing code", made.Secret)
	return made.Secret
}

// TestPairingBetweenHosts: a machine on another host, without any credential, gets one with a
// PIN and the operator's approval, and can then answer approvals. Before the pairing, and with
// a wrong PIN, it gets nothing. If the gateway is killed during a pairing, no device remains.
func TestPairingBetweenHosts(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	near, far := newHosts(t, g.Dir, programs)
	text := must.Get(os.ReadFile(g.Config))(t)
	g.write(g.Config, strings.Replace(string(text), `api = "127.0.0.1:0"`, `api = "`+gatewayHost+`:7443"`+"\nallow_remote = true\nserver_names = [\"gateway.example\"]", 1))
	g.Wrap = near.enter
	g.Start()
	r := &remote{g, near}

	far.palyra("pair", g.address(), "--no-input").Want(t, 1, "no such pairing code is open")
	pin := r.code("--new", "bob", "--role", "operator")
	wrong := far.command(filepath.Join(programs, "palyra"), "pair", g.address())
	wrong.Stdin = strings.NewReader(strings.Map(func(d rune) rune { return '0' + (d-'0'+1)%10 }, pin))
	process.Finish(t, wrong).Want(t, 8, "PAIRING_FAILED", "attempts left: 4")
	far.palyra("status").Want(t, 6)

	waiting, _ := far.pair(g.address(), pin)
	g.Kill()
	g.Start()
	if res := waiting.Wait(t); res.Code == 0 || !strings.Contains(res.Err, "Pair again") {
		t.Errorf("after a kill of the gateway, palyra pair exits %d with %s", res.Code, res.Err)
	}
	if devices := r.operator("devices", "list").Out; strings.Contains(devices, "user:bob") {
		t.Errorf("a device nobody allowed:\n%s", devices)
	}

	pin = r.code("--new", "bob", "--role", "operator")
	second, digits := far.pair(g.address(), pin)
	r.allow(digits)
	second.Wait(t).Want(t, 0)
	if who := far.palyra("status"); who.Code != 0 || !strings.Contains(who.Out, "user:bob (operator)") {
		t.Fatalf("the paired machine is:\n%s%s", who.Out, who.Err)
	}

	// The paired machine approves a call that the operator can no longer approve alone.
	call := r.host.command(filepath.Join(programs, "palyra"), "call", "fs.write", "path=b.txt", "content=new", "mode=overwrite")
	call.Env = append(call.Env, "PALYRA_CONFIG="+g.Config)
	begun := process.Begin(t, call)
	ask, ok := begun.Asked()
	if !ok {
		t.Fatalf("the call does not wait: %s%s", begun.Out, begun.Err)
	}
	r.operator(ask.Decide("--allow", "once")...).Want(t, 3, "PERMISSION_DENIED")
	far.palyra(ask.Decide("--allow", "once")...).Want(t, 0)
	begun.Wait(t).Want(t, 0)
	r.operator("journal", "verify").Want(t, 0)
	if log := g.Log().String(); strings.Contains(log, pin) {
		t.Error("the log holds the PIN")
	}
}
