//go:build linux

package e2e

import (
	"cmp"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// client runs palyra with one credential.
type client struct {
	g *gateway
	// credentials is a bundle; "" means the local operator's.
	credentials string
	// home is a home directory other than the gateway's; "" means the gateway's.
	home string
}

func (c *client) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.g.T.Context(), filepath.Join(programs, "palyra"), args...)
	cmd.Env = append(process.Environment(cmp.Or(c.home, c.g.Dir)), "PALYRA_CONFIG="+c.g.Config)
	if c.credentials != "" {
		cmd.Env = append(cmd.Env, "PALYRA_CREDENTIALS="+c.credentials, "PALYRA_ADDRESS="+c.g.address())
	}
	return cmd
}

// run runs palyra and waits until it exits.
func (c *client) run(args ...string) process.Result {
	c.g.T.Helper()
	r := process.Finish(c.g.T, c.command(args...))
	c.g.Note(r)
	return r
}

// pending is a running palyra.
type pending struct {
	t *testing.T
	*process.Child
}

// begin starts palyra without waiting for it.
func (c *client) begin(args ...string) *pending {
	c.g.T.Helper()
	child := process.Begin(c.g.T, c.command(args...))
	c.g.Watch(child)
	return &pending{c.g.T, child}
}

// wait waits until palyra exits.
func (p *pending) wait() process.Result {
	p.t.Helper()
	return p.Wait(p.t)
}

func (p *pending) interrupt() {
	p.t.Helper()
	must.Do(p.t, p.Cmd.Process.Signal(syscall.SIGINT))
}

// asked waits until the call requests an approval.
func (p *pending) asked() process.Ask {
	p.t.Helper()
	a, ok := p.Asked()
	if !ok {
		p.t.Fatalf("%v does not wait for an approval\nstdout: %s\nstderr: %s", p.Cmd.Args[1:], p.Out, p.Err)
	}
	return a
}

// allow approves, once unless flags specify otherwise.
func (c *client) allow(a process.Ask, flags ...string) process.Result {
	c.g.T.Helper()
	if len(flags) == 0 {
		flags = []string{"--allow", "once"}
	}
	return c.run(a.Decide(flags...)...)
}

func (c *client) deny(a process.Ask) process.Result {
	c.g.T.Helper()
	return c.run(a.Decide("--deny", "--reason", "not today")...)
}

// approval is the output of `palyra approvals show`.
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
	c.g.T.Helper()
	return decode[approval](c.g.T, c.ok("approvals", "show", id, "-o", "json"))
}

// ok runs palyra, wants exit code 0, and returns its output.
func (c *client) ok(args ...string) string {
	c.g.T.Helper()
	r := c.run(args...)
	r.Want(c.g.T, 0)
	return r.Out
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not the JSON that was expected: %v\n%s", err, text)
	}
	return v
}

// status is the output of `palyra status`.
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
	c.g.T.Helper()
	return decode[status](c.g.T, c.ok("status", "-o", "json"))
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
	c.g.T.Helper()
	var list []journaled
	for line := range strings.Lines(c.ok("journal", "list", "--code", code, "--limit", "0", "-o", "ndjson")) {
		list = append(list, decode[journaled](c.g.T, line))
	}
	return list
}

// statement is the part of an attestation that these tests check.
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
			Executor struct {
				Name    string `json:"name"`
				Tier    string `json:"tier"`
				Backend string `json:"backend"`
			} `json:"executor"`
			Usage struct {
				FuelReported int64 `json:"fuel_reported"`
			} `json:"usage"`
			Grants []grantUse `json:"grants"`
		} `json:"predicate"`
	} `json:"statement"`
}

// grantUse is a use of a grant in an attestation.
type grantUse struct {
	Kind, Name    string
	Uses, Refused int
}

// attestation reads and verifies an attestation, by its id or its proposal's id.
func (c *client) attestation(id string) statement {
	c.g.T.Helper()
	s := decode[statement](c.g.T, c.ok("attest", "show", id, "-o", "json"))
	if !s.Verified {
		c.g.T.Fatalf("attestation %s does not verify", id)
	}
	return s
}

// lastAttestation returns the newest attestation.
func (c *client) lastAttestation() statement {
	c.g.T.Helper()
	return c.attestation(strings.TrimSpace(c.ok("attest", "list", "--limit", "1", "-o", "name")))
}
