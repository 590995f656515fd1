//go:build linux

package upgrade

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/test/upgrade/upgradetest"
)

// TestMake creates and packs the state directory of a release. scripts/upgrade.sh runs it, with
// the programs and sources of that release. In a run of the suite, it does nothing.
//
//	TEST_PALYRA_UPGRADE_FROM    the directory of the release's programs; its sources are in src below
//	TEST_PALYRA_UPGRADE_COMMIT  its commit
//	TEST_PALYRA_UPGRADE_EVENTS  how many events the journal is to have at least
//	TEST_PALYRA_UPGRADE_TO      the archive
func TestMake(t *testing.T) {
	t.Parallel()
	from, to := os.Getenv("TEST_PALYRA_UPGRADE_FROM"), os.Getenv("TEST_PALYRA_UPGRADE_TO")
	if from == "" {
		return
	}
	dir := t.TempDir()
	g := newGateway(t, from, dir)
	must.Do(t, os.MkdirAll(filepath.Join(dir, "bundles"), 0o700))
	must.Do(t, os.MkdirAll(filepath.Join(g.Workspace, "two"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(g.Workspace, "a.txt"), []byte("hello\n"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(g.Policies, "10-first.cedar"), []byte(firstPolicies), 0o600))
	r := upgradetest.Release{Commit: os.Getenv("TEST_PALYRA_UPGRADE_COMMIT"), MadeAt: time.Now().UTC().Truncate(time.Second)}
	g.Start()
	addMembers(g)
	r.Confirmations = confirmMembers(g)
	activate(g, &r)
	someCalls(g, &r)
	fill(g, must.Get(strconv.ParseInt(os.Getenv("TEST_PALYRA_UPGRADE_EVENTS"), 10, 64))(t))
	asking(g, &r)
	policies := documented(t, filepath.Join(from, "src"))
	writeJSON(t, filepath.Join(dir, "verdicts.json"), recorded{Policies: policies, Verdicts: verdicts(g, policies)})
	exported(g, &r)
	writeJSON(t, filepath.Join(dir, "release.json"), r)
	g.Stop()
	for _, name := range []string{"palyra.toml", ".config", ".local"} {
		must.Do(t, os.RemoveAll(filepath.Join(dir, name)))
	}
	pack(t, dir, to)
	t.Logf("%d events, %d attestations, %d verdicts: %s", r.Events, len(r.Attested), len(policies), to)
}

// firstPolicies are activated; secondPolicies are in the policy directory.
const firstPolicies = `@id("release.two")
@reason("two people for what is below two/")
forbid(principal, action == Action::"tool.execute/fs.write", resource)
when { context has path && context.path like "two/*" }
unless { context.approval.approvers >= 2 };
`

const secondPolicies = firstPolicies + `
@id("release.no-echo")
@reason("nothing is echoed")
forbid(principal, action == Action::"tool.execute/echo", resource);
`

func addMembers(g *gateway) {
	g.T.Helper()
	for _, m := range [][]string{
		{"ann", "--role", "admin"}, {"bob", "--role", "operator"}, {"eve", "--role", "operator", "--role", "security"},
		{"cyd", "--role", "auditor"}, {"dev", "--role", "developer"}, {"helper", "--owner", "bob"},
	} {
		g.host(append([]string{"operator", "add", "--yes", "--out", g.bundle(m[0])}, m...)...)
	}
	g.as("bob").ok("members", "consent", "helper")
	for name, member := range map[string]string{"bob2": "bob", "revoked": "cyd"} {
		g.host("operator", "bundle", member, "--out", g.bundle(name))
	}
	device := must.Get(g.as("revoked").status.GetStatus(g.T.Context(), &palyrav1.GetStatusRequest{}))(g.T).GetCaller().GetDeviceId()
	g.as("local").ok("devices", "revoke", device, "--yes")
}

// confirmMembers makes the host confirm all members, and returns the number of events that record it.
func confirmMembers(g *gateway) int {
	g.T.Helper()
	g.Stop()
	g.host("members", "confirm", "--all")
	g.Start()
	return len(g.as("local").events("PAL-I114"))
}

// activate loads the second policies and then activates the first again.
func activate(g *gateway, r *upgradetest.Release) {
	g.T.Helper()
	local := g.as("local")
	r.Activated = must.Get(local.policies.GetPolicy(g.T.Context(), &palyrav1.GetPolicyRequest{}))(g.T).GetVersion()
	must.Do(g.T, os.WriteFile(filepath.Join(g.Policies, "10-first.cedar"), []byte(secondPolicies), 0o600))
	must.Get(local.policies.ReloadPolicy(g.T.Context(), &palyrav1.ReloadPolicyRequest{}))(g.T)
	res := must.Get(local.policies.ActivatePolicy(g.T.Context(), &palyrav1.ActivatePolicyRequest{Version: r.Activated}))(g.T)
	if res.GetVersion() != r.Activated || res.GetWasVersion() == r.Activated {
		g.T.Fatalf("activated %s", res)
	}
}

// someCalls makes calls with several outcomes, and a grant.
func someCalls(g *gateway, r *upgradetest.Release) {
	g.T.Helper()
	dev, bob := g.as("dev"), g.as("bob")
	want := func(e ended, word string) ended {
		g.T.Helper()
		if e.word != word {
			g.T.Fatalf("a call %s, want %s: %v", e.word, word, e.decision)
		}
		if e.attested != "" {
			r.Attested = append(r.Attested, e.attested)
		}
		return e
	}
	want(dev.call("fs.read", `{"path":"a.txt"}`), "succeeded")
	want(dev.call("fs.read", `{"path":"no-such-file"}`), "failed")
	want(g.as("helper").call("echo", `{"text":"by an agent"}`), "succeeded")
	granted := upgradetest.Ask{Member: "dev", Tool: "fs.write", Input: `{"path":"notes.txt","content":"one"}`}
	e := want(dev.call(granted.Tool, granted.Input), "asks")
	granted.ID, granted.Digest = e.approval.GetApprovalId(), e.approval.GetCallDigest()
	given := must.Get(bob.decide(granted, &palyrav1.DecideApprovalRequest{
		Allow: true, Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED, Ttl: durationpb.New(7 * 24 * time.Hour), Match: palyrav1.GrantMatch_GRANT_MATCH_SUBJECT,
	}))(g.T)
	if granted.Grant = given.GetGrantId(); granted.Grant == "" {
		g.T.Fatalf("no grant: %v", given)
	}
	must.Eventually(g.T, "the allowed call ran", func() (bool, string) { return g.Read("notes.txt") == "one", g.Read("notes.txt") })
	granted.Input = `{"path":"notes.txt","content":"again","mode":"overwrite"}`
	want(dev.call(granted.Tool, granted.Input), "succeeded")
	r.Granted = granted
	program := want(dev.call("process.run", `{"argv":["ls"]}`), "asks")
	no := upgradetest.Ask{ID: program.approval.GetApprovalId(), Digest: program.approval.GetCallDigest()}
	must.Get(bob.decide(no, &palyrav1.DecideApprovalRequest{Reason: "not today"}))(g.T)
	must.Get(dev.journal.GetCheckpoint(g.T.Context(), &palyrav1.GetCheckpointRequest{Fresh: true}))
}

// fill makes calls until the journal has that many events.
func fill(g *gateway, events int64) {
	g.T.Helper()
	var made atomic.Int64
	size := func() int64 {
		return must.Get(g.as("cyd").journal.GetCheckpoint(g.T.Context(), &palyrav1.GetCheckpointRequest{Fresh: true}))(g.T).GetTreeSize()
	}
	for at := size(); at < events; at = size() {
		var all sync.WaitGroup
		// A call of echo adds four events.
		n := min(max((events-at)/4, 16), 16_000)
		for range 16 {
			dev := g.as("dev")
			all.Go(func() {
				for range n / 16 {
					if e := dev.call("echo", fmt.Sprintf(`{"text":%q}`, strconv.FormatInt(made.Add(1), 10))); e.word != "succeeded" {
						g.T.Errorf("a call %s", e.word)
						return
					}
				}
			})
		}
		all.Wait()
		if g.T.Failed() {
			g.T.FailNow()
		}
	}
}

// asking makes three calls that wait for approval.
func asking(g *gateway, r *upgradetest.Release) {
	g.T.Helper()
	for _, a := range []upgradetest.Ask{
		{Member: "dev", Tool: "fs.write", Input: `{"path":"one.txt","content":"1"}`},
		{Member: "dev", Tool: "fs.write", Input: `{"path":"two/b.txt","content":"2"}`},
		{Member: "helper", Tool: "fs.write", Input: `{"path":"three.txt","content":"3"}`},
	} {
		e := g.as(a.Member).call(a.Tool, a.Input)
		if e.word != "asks" {
			g.T.Fatalf("%+v %s", a, e.word)
		}
		a.ID, a.Digest = e.approval.GetApprovalId(), e.approval.GetCallDigest()
		r.Asks = append(r.Asks, a)
	}
	half := must.Get(g.as("bob").decide(r.Asks[1], &palyrav1.DecideApprovalRequest{Allow: true}))(g.T)
	if half.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING || len(half.GetVotes()) != 1 {
		g.T.Fatalf("after the first of two votes: %v", half)
	}
}

// exported stores an export and the key set, as an auditor does.
func exported(g *gateway, r *upgradetest.Release) {
	g.T.Helper()
	cyd := g.as("cyd")
	r.Events = must.Get(cyd.journal.GetCheckpoint(g.T.Context(), &palyrav1.GetCheckpointRequest{Fresh: true}))(g.T).GetTreeSize()
	cyd.ok("journal", "export", filepath.Join(g.Dir, "export.ndjson"))
	must.Do(g.T, os.WriteFile(filepath.Join(g.Dir, "keys.json"), []byte(cyd.ok("attest", "keys", "-o", "json")), 0o600))
}

func newKey(t *testing.T) string {
	t.Helper()
	return strconv.FormatUint(rand.Uint64(), 36)
}
