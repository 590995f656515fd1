package attest_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

func TestSignAndVerify(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := newNotary(t, a)
	x := execution()
	env := mustSign(t, n, x)

	v := must.Get(attest.Verify(env.JSON, n.KeySet()))(t)
	sum := sha256.Sum256(env.JSON)
	if env.ID != x.AttestationID || env.SHA256 != hex.EncodeToString(sum[:]) || v.SHA256 != env.SHA256 {
		t.Errorf("envelope id %s digest %s, verified digest %s", env.ID, env.SHA256, v.SHA256)
	}
	want := []attest.Subject{
		{Name: "palyra:tool-call/" + x.ProposalID, Digest: attest.Digest{SHA256: strings.Repeat("2", 64)}},
		{Name: "palyra:file/repo/out/report.txt", Digest: attest.Digest{SHA256: strings.Repeat("c", 64)}},
	}
	if diff := cmp.Diff(want, v.Statement.Subject); diff != "" {
		t.Errorf("subjects (a removed file is none):\n%s", diff)
	}
	must.Check(t, v.CheckResult(x.Report.Result))
	refused(t, v.CheckResult(append(slices.Clone(x.Report.Result), '\n')), "SHA-256")
	if v.Predicate.Isolation.Rlimits["fsize"] != "unlimited" {
		t.Errorf("rlimit = %q: 2^64-1 does not survive a double", v.Predicate.Isolation.Rlimits["fsize"])
	}
}

func TestOutcomesOtherThanSuccess(t *testing.T) {
	t.Parallel()
	n := newNotary(t, newAuthority(t))
	for _, outcome := range []tool.Outcome{tool.Failed, tool.TimedOut, tool.Refused, tool.Stopped, tool.Unknown} {
		x := execution()
		// The call was refused at dispatch, so no program ran and most fields are empty.
		x.Report = tool.Report{Outcome: outcome, Reason: "X", Executor: tool.ExecutorInfo{Name: tool.TierCBubblewrap, Tier: "c"}}
		x.Executable, x.Operands, x.Determining, x.Secrets, x.ApprovedAt = tool.Executable{}, nil, nil, nil, time.Time{}
		v, err := attest.Verify(mustSign(t, n, x).JSON, n.KeySet())
		if err != nil {
			t.Fatalf("%s: %v", outcome, err)
		}
		p := v.Predicate
		if p.Result.TimedOut != (outcome == tool.TimedOut) || p.Isolation != nil || p.SandboxEnforcement != "none" || !p.Times.ApprovedAt.IsZero() {
			t.Errorf("%s: predicate %+v", outcome, p)
		}
	}
}

func TestIsolationIsAbsentWhenNothingWasReadBack(t *testing.T) {
	t.Parallel()
	n := newNotary(t, newAuthority(t))
	x := execution()
	x.Report.Isolation = nil
	env := mustSign(t, n, x)
	_, payload, _ := split(t, env.JSON)
	if strings.Contains(string(payload), `"isolation"`) || strings.Contains(string(payload), "no_new_privs") {
		t.Error("an isolation that was not read back is in the statement")
	}
	v, err := attest.Verify(env.JSON, n.KeySet())
	must.Do(t, err)
	want := attest.Enforcement{
		Requested:  []string{"namespaces", "seccomp", "cgroup"},
		Applied:    []string{},
		Downgrades: []string{"cgroup: rlimits instead", "namespaces: claimed, not read back", "seccomp: claimed, not read back"},
	}
	if diff := cmp.Diff(want, v.Predicate.Enforcement); diff != "" || v.Predicate.SandboxEnforcement != "none" {
		t.Errorf("level %s, enforcement:\n%s", v.Predicate.SandboxEnforcement, diff)
	}

	// Control: isolation that was read back is accepted.
	v, err = attest.Verify(mustSign(t, n, execution()).JSON, n.KeySet())
	if err != nil || v.Predicate.SandboxEnforcement != "strict" || len(v.Predicate.Enforcement.Applied) != 2 {
		t.Errorf("level %s, applied %v, %v", v.Predicate.SandboxEnforcement, v.Predicate.Enforcement.Applied, err)
	}
}

func TestDowngradesAreNeverSilent(t *testing.T) {
	t.Parallel()
	n := newNotary(t, newAuthority(t))
	x := execution()
	x.Report.Enforcement.Downgrades = nil
	x.Report.Enforcement.Requested = append(x.Report.Enforcement.Requested, "cgroup-v2")
	v, err := attest.Verify(mustSign(t, n, x).JSON, n.KeySet())
	must.Do(t, err)
	want := []string{"cgroup: requested, not applied", "cgroup-v2: requested, not applied"}
	if diff := cmp.Diff(want, v.Predicate.Enforcement.Downgrades); diff != "" {
		t.Error(diff)
	}
	// A statement with a silent downgrade does not verify even when signed.
	env := resigned(t, n, execution(), func(s *attest.Statement) { s.Predicate.Enforcement.Downgrades = []string{} })
	_, err = attest.Verify(env, n.KeySet())
	refused(t, err, `layer "cgroup" was requested`)
}

func TestSecondWriteOfAFile(t *testing.T) {
	t.Parallel()
	n := newNotary(t, newAuthority(t))
	x := execution()
	x.Report.Files = []tool.FileChange{
		{Workspace: "w", Path: "a", Was: strings.Repeat("1", 64), Is: "sha256:" + strings.Repeat("2", 64)},
		{Workspace: "w", Path: "a", Was: strings.Repeat("2", 64), Is: strings.Repeat("3", 64)},
	}
	v := must.Get(attest.Verify(mustSign(t, n, x).JSON, n.KeySet()))(t)
	want := []attest.FileChange{{Workspace: "w", Path: "a", Was: strings.Repeat("1", 64), Is: strings.Repeat("3", 64)}}
	if diff := cmp.Diff(want, v.Predicate.Outputs.Files); diff != "" {
		t.Error(diff)
	}
	if x.Report.Files[0].Is != "sha256:"+strings.Repeat("2", 64) {
		t.Error("Sign changed its argument")
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	n := newNotary(t, newAuthority(t))
	for name, change := range map[string]func(*attest.Execution){
		"attestation id":    func(x *attest.Execution) { x.AttestationID = "1" },
		"proposal id":       func(x *attest.Execution) { x.ProposalID = "" },
		"decision":          func(x *attest.Execution) { x.DecisionID = "" },
		"call":              func(x *attest.Execution) { x.CallDigest = strings.Repeat("2", 64) },
		"arguments":         func(x *attest.Execution) { x.ArgumentsDigest = "" },
		"snapshot":          func(x *attest.Execution) { x.SnapshotDigest = "sha256:AB" },
		"outcome":           func(x *attest.Execution) { x.Report.Outcome = "" },
		"not 64 hex digits": func(x *attest.Execution) { x.Operands = []tool.Operand{{Path: "a", SHA256: "zz"}} },
		"subject":           func(x *attest.Execution) { x.Report.Files[0].Is = "nonsense" },
	} {
		x := execution()
		x.Report.Files = slices.Clone(x.Report.Files)
		change(&x)
		_, err := n.Sign(context.Background(), x)
		if reason.Of(err) != reason.AttestationFailed || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v (%s)", name, err, reason.Of(err))
		}
	}
}

func TestSignOutsideItsCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	key := seed('k')
	now := epoch
	n := must.Get(attest.NewNotary(attest.NotaryConfig{Signer: key, Chain: a.chain(key.Public(), nil), Gateway: gateway, Now: func() time.Time { return now }}))(t)
	now = epoch.AddDate(2, 0, 0)
	if _, err := n.Sign(context.Background(), execution()); reason.Of(err) != reason.AttestationFailed {
		t.Errorf("got %v, want ATTESTATION_FAILED", err)
	}
}

func TestNewNotaryRefuses(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	key := seed('k')
	other := seed('o')
	weak := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	good := attest.NotaryConfig{Signer: key, Chain: a.chain(key.Public(), nil), Gateway: gateway}
	for name, change := range map[string]func(*attest.NotaryConfig){
		"no signer":      func(c *attest.NotaryConfig) { c.Signer = nil },
		"Ed25519":        func(c *attest.NotaryConfig) { c.Signer = weak },
		"another key":    func(c *attest.NotaryConfig) { c.Signer = other },
		"root last":      func(c *attest.NotaryConfig) { c.Chain = c.Chain[:1] },
		"lead to":        func(c *attest.NotaryConfig) { c.Chain = []*x509.Certificate{c.Chain[0], newAuthority(t).cert} },
		"gateway's name": func(c *attest.NotaryConfig) { c.Gateway = "" },
		"certified for":  func(c *attest.NotaryConfig) { c.Gateway = "other.local" },
	} {
		c := good
		change(&c)
		if _, err := attest.NewNotary(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := attest.NewNotary(good); err != nil {
		t.Error(err)
	}
}

func TestRotationKeepsOldKeys(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := newNotary(t, a)
	before := mustSign(t, n, execution())
	old := n.KeySet()

	// A renewal has the same key and another certificate.
	key := seed('k')
	must.Do(t, n.Use(key, a.chain(key.Public(), nil)))
	if set := n.KeySet(); len(set.Keys) != 2 || set.Keys[1].Retired || set.Keys[0].KeyID != set.Keys[1].KeyID {
		t.Errorf("after a renewal: %+v", set.Keys)
	}
	// A rotation has another key.
	next := seed('n')
	must.Do(t, n.Use(next, a.chain(next.Public(), nil)))
	set := n.KeySet()
	if len(set.Keys) != 3 || set.Keys[0].Retired || !set.Keys[1].Retired || !set.Keys[2].Retired {
		t.Errorf("after a rotation: %+v", set.Keys)
	}
	after := mustSign(t, n, execution())
	for name, env := range map[string]attest.Envelope{"before": before, "after": after} {
		if _, err := attest.Verify(env.JSON, set); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := attest.Verify(after.JSON, old)
	refused(t, err, "no key")

	// A chain with another root is refused.
	if err := n.Use(next, newAuthority(t).chain(next.Public(), nil)); err == nil {
		t.Error("a key under another root was taken")
	}
	// Use with the current key and chain changes nothing.
	if err := n.Use(next, chainOf(t, set)); err != nil || len(n.KeySet().Keys) != 3 {
		t.Errorf("%d keys, %v", len(n.KeySet().Keys), err)
	}
}

func TestRetiredKeySignsNoMore(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := newNotary(t, a)
	env := mustSign(t, n, execution())
	set := n.KeySet()
	set.Keys[0].Retired, set.Keys[0].RetiredAt = true, epoch.Add(-time.Second)
	_, err := attest.Verify(env.JSON, set)
	refused(t, err, "retired")
	set.Keys[0].RetiredAt = epoch
	if _, err := attest.Verify(env.JSON, set); err != nil {
		t.Error(err)
	}
}

func TestKeySetJSON(t *testing.T) {
	t.Parallel()
	n := newNotary(t, newAuthority(t))
	text, err := n.KeySet().JSON()
	must.Do(t, err)
	set := must.Get(attest.ParseKeySet(text))(t)
	if diff := cmp.Diff(n.KeySet(), set); diff != "" {
		t.Error(diff)
	}
	if f := set.Fingerprint(); len(f) != len(digest("0")) {
		t.Errorf("fingerprint %q", f)
	}
	if strings.Contains(string(text), "PRIVATE") {
		t.Error("a private key was exported")
	}
	var m map[string]any
	must.Do(t, json.Unmarshal(text, &m))
	m["extra"] = 1
	changed := must.Get(json.Marshal(m))(t)
	_, err = attest.ParseKeySet(changed)
	refused(t, err, "extra")
	_, err = attest.ParseKeySet([]byte(`{"format":"palyra-key-set/v2"}`))
	refused(t, err, "format")
}
