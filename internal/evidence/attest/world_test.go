package attest_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
)

const gateway = "palyra.local"

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// seed returns a test key that is the same in every run.
func seed(name byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(name), ed25519.SeedSize)))
}

// authority is a small CA, which can also issue invalid certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"},
		NotBefore: epoch.AddDate(-1, 0, 0), NotAfter: epoch.AddDate(9, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return &authority{t: t, cert: sign(t, tmpl, tmpl, key.Public(), key), key: key}
}

// notaryTemplate returns the template of a valid notary certificate.
func notaryTemplate() *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(2),
		NotBefore:    epoch.AddDate(0, -1, 0), NotAfter: epoch.AddDate(0, 11, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		URIs:                  []*url.URL{{Scheme: "spiffe", Host: gateway, Path: "/notary/1"}},
		BasicConstraintsValid: true,
	}
}

func (a *authority) chain(pub crypto.PublicKey, change func(*x509.Certificate)) []*x509.Certificate {
	a.t.Helper()
	tmpl := notaryTemplate()
	if change != nil {
		change(tmpl)
	}
	return []*x509.Certificate{sign(a.t, tmpl, a.cert, pub, a.key), a.cert}
}

func sign(t testing.TB, tmpl, parent *x509.Certificate, pub, key any) *x509.Certificate {
	t.Helper()
	der := must.Get(x509.CreateCertificate(rand.Reader, tmpl, parent, pub, key))(t)
	return must.Get(x509.ParseCertificate(der))(t)
}

func at(when time.Time) func() time.Time { return func() time.Time { return when } }

func newNotary(t testing.TB, a *authority) *attest.Notary {
	t.Helper()
	key := seed('k')
	n := must.Get(attest.NewNotary(attest.NotaryConfig{
		Signer: key, Chain: a.chain(key.Public(), nil), Gateway: gateway, Now: at(epoch),
	}))(t)
	return n
}

func digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

// execution returns an execution with every member of the predicate.
func execution() attest.Execution {
	code := 0
	return attest.Execution{
		AttestationID: "01JNA3Q0G0ATTESTAT10N00000", ProposalID: "01JNA3PZ80PR0P0SA100000000",
		DecisionID: "01JNA3PZZ0DEC1S10N00000000", ApprovalID: "01JNA3PZH0APPR0VA100000000",
		Session: "session-1", Run: "run-1", Principal: "agent:coder", OnBehalfOf: "user:alice",
		Tool: "process.run", ToolDefinitionDigest: digest("1"), CallDigest: digest("2"), ArgumentsDigest: digest("3"),
		PolicyVersion: "policy-7", SnapshotDigest: digest("4"), Determining: []string{"exec.ask", "exec.permit"},
		Operands:   []tool.Operand{{Path: "main.py", SHA256: strings.Repeat("5", 64)}},
		Executable: tool.Executable{Path: "/usr/bin/python3.12", SHA256: strings.Repeat("6", 64)},
		Secrets:    []string{"vault://global/pypi-token"},
		ProposedAt: epoch.Add(-9 * time.Second), DecidedAt: epoch.Add(-2 * time.Second), ApprovedAt: epoch.Add(-3 * time.Second),
		Report: tool.Report{
			Outcome:  tool.Succeeded,
			Result:   json.RawMessage(`{"exit_code":0,"stdout":"ok\n"}`),
			Executor: tool.ExecutorInfo{Name: tool.TierCBubblewrap, Version: "1.0.0", Tier: "c", Backend: "bubblewrap 0.8.0"},
			Enforcement: tool.Enforcement{
				Level: "strict", Requested: []string{"namespaces", "seccomp", "cgroup"},
				Applied: []string{"namespaces", "seccomp"}, Downgrades: []string{"cgroup: rlimits instead"},
			},
			Isolation: &tool.Isolation{
				Measured: tool.Measured{
					UID: 1000, GID: 1000, CapEff: "0000000000000000", CapBnd: "0000000000000000", CapPrm: "0000000000000000",
					NoNewPrivs: true, SeccompMode: 2, LandlockABI: 4, LimitsBy: "rlimit",
					Kernel: "6.18.0", Rung: "full", Workspace: "copy_on_write", Watched: true, Prepared: true,
				},
				Namespaces: map[string]uint64{"mnt": 4026532561, "net": 4026532564},
				Rlimits:    map[string]uint64{"nofile": 256, "fsize": ^uint64(0)}, SeccompSHA: strings.Repeat("7", 64),
				HelperSHA: strings.Repeat("8", 64), ArgumentsSHA: strings.Repeat("9", 64), BackendSHA: strings.Repeat("e", 64),
			},
			Changes: &tool.Changes{
				State: tool.Committed, Root: digest("f"), Workspace: "repo", Added: 1, Deleted: 1, Bytes: 12,
				Protected: []string{"out/report.txt"}, ApprovalID: "01JNA3PZX0APPR0VA200000000",
			},
			Violations: []tool.Violation{{
				At: epoch.Add(-time.Second), Syscall: "unshare", Arguments: []string{"10000000"}, Executable: "/usr/bin/python3.12", Errno: "EPERM",
			}},
			ViolationsMissed: 2,
			Egress:           tool.Egress{Mode: "strict"},
			Outputs:          tool.Outputs{StdoutSHA256: strings.Repeat("a", 64), StderrSHA256: strings.Repeat("b", 64), StdoutBytes: 3},
			Files: []tool.FileChange{
				{Workspace: "repo", Path: "out/report.txt", Is: strings.Repeat("c", 64)},
				{Workspace: "repo", Path: "old.txt", Was: strings.Repeat("d", 64)},
			},
			ExitCode:  &code,
			Usage:     tool.Usage{Wall: 1200 * time.Millisecond, CPU: 800 * time.Millisecond, PeakMemory: 20 << 20, Processes: 2},
			StartedAt: epoch.Add(-1500 * time.Millisecond), FinishedAt: epoch.Add(-300 * time.Millisecond),
		},
	}
}

func mustSign(t testing.TB, n *attest.Notary, x attest.Execution) attest.Envelope {
	t.Helper()
	return must.Get(n.Sign(context.Background(), x))(t)
}

// parts holds the parts of an envelope.
type parts struct {
	PayloadType string `json:"payloadType"`
	Payload     string `json:"payload"`
	Signatures  []sig  `json:"signatures"`
}

type sig struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

func split(t testing.TB, envelope []byte) (parts, []byte, []byte) {
	t.Helper()
	var p parts
	must.Do(t, json.Unmarshal(envelope, &p))
	return p, unbase64(t, p.Payload), unbase64(t, p.Signatures[0].Sig)
}

func unbase64(t testing.TB, s string) []byte {
	t.Helper()
	return must.Get(base64.StdEncoding.DecodeString(s))(t)
}

func (p parts) with(payload, signature []byte) []byte {
	p.Payload = base64.StdEncoding.EncodeToString(payload)
	p.Signatures = []sig{{p.Signatures[0].KeyID, base64.StdEncoding.EncodeToString(signature)}}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return text
}

// refused expects VerificationFailed with want in the message.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	if reason.Of(err) != reason.VerificationFailed || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v (%s), want VERIFICATION_FAILED with %q", err, reason.Of(err), want)
	}
}
