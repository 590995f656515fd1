package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/ops/keyadmin"
)

var gatewayKeys = []string{keyadmin.Issuing, keyadmin.Notary, keyadmin.Journal}

// attested makes a call and returns its attestation envelope.
func (d *running) attested() []byte {
	d.t.Helper()
	stream := must.Get(palyrav1connect.NewGatewayServiceClient(d.client(), d.url()).CallTool(d.t.Context(), &palyrav1.CallToolRequest{Tool: "echo", InputJson: []byte(`{"text":"x"}`)}))(d.t)
	defer func() { _ = stream.Close() }()
	id := ""
	for stream.Receive() {
		if a := stream.Msg().GetAttestation(); a != nil {
			id = a.GetAttestationId()
		}
	}
	must.Do(d.t, stream.Err())
	res := must.Get(palyrav1connect.NewAttestationServiceClient(d.client(), d.url()).GetAttestation(d.t.Context(), &palyrav1.GetAttestationRequest{Id: id}))(d.t)
	return res.GetEnvelopeJson()
}

// served returns the digest of the issuer in the chain that the gateway presents. The client
// trusts the root alone.
func (d *running) served() string {
	d.t.Helper()
	cfg := must.Get(identity.ReadBundle(d.Credentials))(d.t).ClientTLS()
	c := must.Get((&tls.Dialer{NetDialer: &net.Dialer{}, Config: cfg}).DialContext(d.t.Context(), "tcp", d.API))(d.t)
	defer c.Close()
	state := c.(*tls.Conn).ConnectionState()
	if len(state.PeerCertificates) != 2 || len(state.VerifiedChains) == 0 {
		d.t.Fatalf("the gateway shows %d certificates", len(state.PeerCertificates))
	}
	return canonical.Digest(state.PeerCertificates[1].RawSubjectPublicKeyInfo)
}

// Every key is rotated online and offline. Signatures of the old key verify with the old key
// set and the new one, and signatures of the new key verify with the new set. Devices stay
// valid, and the journal has an event before and after each rotation.
func TestRotateGatewayKeys(t *testing.T) {
	t.Parallel()
	for name, online := range map[string]bool{"online": true, "offline": false} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			d := start(t, cfg)
			bob := filepath.Join(t.TempDir(), "bob")
			must.Get(AddOperator(t.Context(), cfg, NewOperator{Name: "bob", Roles: []access.Role{access.RoleOperator}, Dir: bob, AcceptLoss: true}))(t)
			before, export, envelope, shown := d.keySet(), d.export(), d.attested(), d.served()
			was := must.Get(ListKeys(t.Context(), cfg))(t)
			for _, key := range gatewayKeys {
				if !online {
					d.end()
				}
				r := must.Get(RotateKey(t.Context(), cfg, key))(t)
				if r.Key.Name != key || r.Was == r.Key.SHA256 {
					t.Errorf("%s: %+v", key, r)
				}
				if !online {
					d = start(t, cfg)
				}
				must.Get(d.as(t, bob))(t)
				must.Get(must.Get(attest.NewVerifier(d.keySet()))(t).Verify(d.attested()))(t)
			}
			after := d.keySet()
			for _, set := range []attest.KeySet{before, after} {
				must.Get(must.Get(attest.NewVerifier(set))(t).Verify(envelope))(t)
				must.Get(verifiedWith(export, set))(t)
				must.Get(verifiedWith(d.export(), set))(t)
			}
			fresh := d.attested()
			must.Get(must.Get(attest.NewVerifier(after))(t).Verify(fresh))(t)
			if _, err := must.Get(attest.NewVerifier(before))(t).Verify(fresh); err == nil { // control
				t.Error("the old key set verifies what the new key signed")
			}
			now := must.Get(ListKeys(t.Context(), cfg))(t)
			for i, k := range now {
				if same := k.SHA256 == was[i].SHA256; same != (k.Name == keyadmin.Root) {
					t.Errorf("%s is the same key: %v", k.Name, same)
				}
			}
			if !online && d.served() == shown {
				t.Error("a new start shows the old intermediate")
			}
			must.Get(MakeBundle(t.Context(), cfg, NewBundle{Member: "bob", Dir: filepath.Join(t.TempDir(), "again"), AcceptLoss: true}))(t)
			d.journaledKeys()
		})
	}
}

// journaledKeys requires two events of each key: the intent to replace it, and the replacement.
func (d *running) journaledKeys() {
	d.t.Helper()
	events := palyrav1connect.NewJournalServiceClient(d.client(), d.url())
	page := must.Get(events.ListEvents(d.t.Context(), &palyrav1.ListEventsRequest{Filter: &palyrav1.EventFilter{Code: string(event.GatewayKeyReplaced)}}))(d.t)
	var told []string
	for _, e := range page.GetEvents() {
		what := " to be"
		if strings.Contains(string(e.GetPayloadJson()), `"sha256"`) {
			what = " was"
		}
		told = append(told, e.GetSubject()+what)
	}
	want := "issuing to be,issuing was,notary to be,notary was,journal to be,journal was"
	if got := strings.Join(told, ","); got != want {
		d.t.Errorf("journaled %s, want %s", got, want)
	}
}

func TestRotateInvalidKeys(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	start(t, cfg).end()
	for name, want := range map[string]reason.Code{keyadmin.Root: reason.InvalidInput, "nothing": reason.NotFound} {
		if _, err := RotateKey(t.Context(), cfg, name); reason.Of(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInterruptedGatewayKeyRotation: a rotation that ends at any of its writes leaves either the
// old key or the new one intact. The gateway starts and signs, earlier signatures verify, and the
// rotation can be repeated.
func TestInterruptedGatewayKeyRotation(t *testing.T) {
	t.Parallel()
	// writes has the files that each rotation writes, in order.
	writes := map[string][]string{keyadmin.Issuing: {"issuing.pem"}, keyadmin.Notary: {"notary-past.json", "notary.pem"}}
	for key, files := range writes {
		for done := range len(files) + 1 {
			t.Run(key+" "+strings.Join(files[:done], " "), func(t *testing.T) {
				cfg := testConfig(t)
				d := start(t, cfg)
				envelope := d.attested()
				d.end()
				at := statedir.Authority(cfg.StateDir)
				old := readAll(t, at)
				must.Get(RotateKey(t.Context(), cfg, key))(t)
				for i, name := range changed(t, old, readAll(t, at)) {
					if i >= len(files) || name != files[i] {
						t.Fatalf("the rotation wrote %s", name)
					}
				}
				for _, name := range files[done:] {
					must.Do(t, os.WriteFile(filepath.Join(at, name), old[name], 0o600))
				}
				for range 2 {
					d = start(t, cfg)
					set := must.Get(attest.NewVerifier(d.keySet()))(t)
					must.Get(set.Verify(envelope))(t)
					must.Get(set.Verify(d.attested()))(t)
					d.served()
					d.end()
					must.Get(RotateKey(t.Context(), cfg, key))(t)
				}
			})
		}
	}
}

func readAll(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		all[e.Name()] = must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
	}
	return all
}

func changed(t *testing.T, before, after map[string][]byte) (names []string) {
	t.Helper()
	for _, name := range []string{"issuing.pem", "notary-past.json", "notary.pem", "journal.key", "journal-past", "journal-keys.json", "journal-next.json", "root.pem"} {
		if string(before[name]) != string(after[name]) {
			names = append(names, name)
		}
	}
	return names
}

// failing is a journal that accepts no more events.
type failing struct{ journal.Store }

var errFull = errors.New("full")

func (failing) Append(context.Context, ...event.Draft) ([]journal.Event, error) { return nil, errFull }

// A key is not replaced if the replacement cannot be journaled.
func TestRotationIsJournaledFirst(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	start(t, cfg).end()
	must.Do(t, withStores(t.Context(), cfg, func(s stores, authority *ca.Authority) error {
		log := must.Get(journal.New(failing{s.journal}, journal.Options{Key: must.Get(journal.ParseKey(authority.Journal.Signer()))(t)}))(t)
		keys := &keyadmin.Keys{Authority: authority, Journal: log}
		was := keys.List()
		for _, key := range gatewayKeys {
			if _, err := keys.Rotate(t.Context(), "user:local", key); !errors.Is(err, errFull) {
				t.Errorf("%s: %v", key, err)
			}
		}
		for i, k := range keys.List() {
			if k != was[i] {
				t.Errorf("%s was replaced", k.Name)
			}
		}
		return nil
	}))
}
