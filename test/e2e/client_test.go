//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra/test/process"
)

// client runs palyra with one credential.
type client struct {
	g *gateway
	// credentials is a bundle; "" means the local operator's.
	credentials string
}

// result is a process that has ended.
type result struct {
	args     []string
	code     int
	out, err string
}

// want fails unless the process ended with the exit code and its messages hold
// all of says.
func (r result) want(t *testing.T, code int, says ...string) {
	t.Helper()
	if r.code != code {
		t.Fatalf("%v: exit code %d, want %d\nstdout: %s\nstderr: %s", r.args, r.code, code, r.out, r.err)
	}
	for _, text := range says {
		if !strings.Contains(r.err, text) {
			t.Errorf("%v does not say %q:\n%s", r.args, text, r.err)
		}
	}
}

// finish runs a process to its end.
func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	err := process.Run(cmd)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return result{args: cmd.Args[1:], code: cmd.ProcessState.ExitCode(), out: out.String(), err: msg.String()}
}

func (c *client) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.g.t.Context(), filepath.Join(programs, "palyra"), args...)
	cmd.Env = append(environment(c.g.dir), "PALYRA_CONFIG="+c.g.config)
	if c.credentials != "" {
		cmd.Env = append(cmd.Env, "PALYRA_CREDENTIALS="+c.credentials, "PALYRA_ADDRESS="+c.g.address())
	}
	return cmd
}

// run runs palyra to its end.
func (c *client) run(args ...string) result {
	c.g.t.Helper()
	return finish(c.g.t, c.command(args...))
}

// pending is a palyra that still runs.
type pending struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   *process.Output
	err   *process.Output
	ended chan struct{}
}

// begin starts palyra and does not wait for it.
func (c *client) begin(args ...string) *pending {
	c.g.t.Helper()
	p := &pending{t: c.g.t, cmd: c.command(args...), out: process.NewOutput(), err: process.NewOutput(), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// wait waits for the end.
func (p *pending) wait() result {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(process.Patience):
		p.t.Fatalf("%v did not end\nstdout: %s\nstderr: %s", p.cmd.Args[1:], p.out, p.err)
	}
	return result{args: p.cmd.Args[1:], code: p.cmd.ProcessState.ExitCode(), out: p.out.String(), err: p.err.String()}
}

func (p *pending) interrupt() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
}

// ask names an approval and the call that it is about.
type ask struct{ id, digest string }

var askLines = regexp.MustCompile(`(?s)waiting for approval (\w{26}) .*--allow once --digest (sha256:[0-9a-f]{64})`)

// asked waits until the call waits for an approval.
func (p *pending) asked() ask {
	p.t.Helper()
	m := p.err.Await(askLines, p.ended)
	if m == nil {
		p.t.Fatalf("%v does not wait for an approval\nstdout: %s\nstderr: %s", p.cmd.Args[1:], p.out, p.err)
	}
	return ask{m[1], m[2]}
}

// allow votes yes, once unless flags say more.
func (c *client) allow(a ask, flags ...string) result {
	c.g.t.Helper()
	if len(flags) == 0 {
		flags = []string{"--allow", "once"}
	}
	return c.run(append([]string{"approvals", "decide", a.id, "--digest", a.digest, "-o", "json"}, flags...)...)
}

func (c *client) deny(a ask) result {
	c.g.t.Helper()
	return c.run("approvals", "decide", a.id, "--digest", a.digest, "--deny", "--reason", "not today", "-o", "json")
}

// approval is what `palyra approvals show` says.
type approval struct {
	State   string `json:"state"`
	Missing string `json:"missing"`
	RunGone bool   `json:"run_gone"`
	GrantID string `json:"grant_id"`
	Votes   []struct {
		User    string `json:"user"`
		Surface string `json:"surface"`
		Allow   bool   `json:"allow"`
	} `json:"votes"`
	Prompt struct {
		Scopes []struct {
			Scope string `json:"scope"`
		} `json:"scopes"`
	} `json:"prompt"`
}

func (c *client) approval(id string) approval {
	c.g.t.Helper()
	return decode[approval](c.g.t, c.ok("approvals", "show", id, "-o", "json"))
}

// ok runs palyra, wants exit code 0, and returns its output.
func (c *client) ok(args ...string) string {
	c.g.t.Helper()
	r := c.run(args...)
	r.want(c.g.t, 0)
	return r.out
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not the JSON that was expected: %v\n%s", err, text)
	}
	return v
}

// status is what `palyra status` says.
type status struct {
	PolicyVersion  string   `json:"policy_version"`
	SnapshotDigest string   `json:"snapshot_digest"`
	CallsInFlight  int      `json:"calls_in_flight"`
	LiveGrants     int      `json:"live_grants"`
	Notices        []string `json:"notices"`
	Freeze         struct {
		Frozen bool   `json:"frozen"`
		Reason string `json:"reason"`
	} `json:"freeze"`
	Caller struct {
		Principal  string   `json:"principal"`
		OnBehalfOf string   `json:"on_behalf_of"`
		Roles      []string `json:"roles"`
	} `json:"caller"`
}

func (c *client) status() status {
	c.g.t.Helper()
	return decode[status](c.g.t, c.ok("status", "-o", "json"))
}

// journaled is one event of the journal.
type journaled struct {
	Code    string          `json:"code"`
	Actor   string          `json:"actor"`
	Subject string          `json:"subject"`
	Payload json.RawMessage `json:"payload"`
}

// events lists the events with a code.
func (c *client) events(code string) []journaled {
	c.g.t.Helper()
	var list []journaled
	for line := range strings.Lines(c.ok("journal", "list", "--code", code, "--limit", "0", "-o", "ndjson")) {
		list = append(list, decode[journaled](c.g.t, line))
	}
	return list
}

// statement is the part of an attestation that these tests look at.
type statement struct {
	AttestationID string `json:"attestation_id"`
	Verified      bool   `json:"verified"`
	Statement     struct {
		Predicate struct {
			Enforcement struct {
				Applied    []string `json:"applied"`
				Downgrades []string `json:"downgrades"`
			} `json:"enforcement"`
			Isolation struct {
				CapEff      string            `json:"cap_eff"`
				CapBnd      string            `json:"cap_bnd"`
				NoNewPrivs  bool              `json:"no_new_privs"`
				SeccompMode int               `json:"seccomp_mode"`
				Namespaces  map[string]string `json:"namespaces"`
				UID         int               `json:"uid"`
				LimitsBy    string            `json:"limits_by"`
			} `json:"isolation"`
			SandboxEnforcement string `json:"sandbox_enforcement"`
			Invocation         struct {
				GrantID    string `json:"grant_id"`
				ApprovalID string `json:"approval_id"`
				ProposalID string `json:"proposal_id"`
			} `json:"invocation"`
			Result struct {
				Outcome string `json:"outcome"`
				Reason  string `json:"reason"`
			} `json:"result"`
		} `json:"predicate"`
	} `json:"statement"`
}

// attestation reads and verifies an attestation, by its id or its proposal's.
func (c *client) attestation(id string) statement {
	c.g.t.Helper()
	s := decode[statement](c.g.t, c.ok("attest", "show", id, "-o", "json"))
	if !s.Verified {
		c.g.t.Fatalf("attestation %s does not verify", id)
	}
	return s
}

// lastAttestation is the newest one.
func (c *client) lastAttestation() statement {
	c.g.t.Helper()
	return c.attestation(strings.TrimSpace(c.ok("attest", "list", "--limit", "1", "-o", "name")))
}
