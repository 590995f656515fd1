package people_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/pairing"
)

// TestGoldenPairings compares the output of every listing and page in every format.
func TestGoldenPairings(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"pairing_code":   {"pairing", "code", "--new", "bob", "--role", "operator", "--at", "192.0.2.7:7443"},
		"pairing_list":   {"pairing", "list"},
		"pairing_cancel": {"pairing", "cancel", clitest.PairingID},
	})
}

func TestCode(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Cases("pairing code", clitest.Cases{
		{"a PIN, for oneself", nil, 0, "4821 9930"},
		{"the address of this machine alone", nil, 0, "--at HOST:PORT"},
		{"an address for others", []string{"--at", "192.0.2.7:7443"}, 0, "palyra pair 192.0.2.7:7443"},
		{"an address that is none", []string{"--at", "192.0.2.7"}, 2, "HOST:PORT"},
		{"both kinds", []string{"--pin", "--qr"}, 2, ""},
		{"a new member and an old one", []string{"--new", "bob", "--member", "ada", "--role", "operator"}, 2, ""},
		{"a new member without a role", []string{"--new", "bob"}, 2, "--role operator"},
		{"a role for an old one", []string{"--member", "bob", "--role", "owner"}, 2, "--new NAME"},
		{"an agent", []string{"--new", "builder", "--owner", "ada"}, 0, "(new)"},
	})
	made := clitest.Requests[*palyrav1.CreatePairingCodeRequest](w)
	last := made[slices.IndexFunc(made, (*palyrav1.CreatePairingCodeRequest).GetNewMember)]
	if last.GetMember() != "builder" || last.GetOwner() != "ada" || !slices.Equal(last.GetRoles(), []string{"agent"}) {
		t.Errorf("asked for %v", last)
	}
	w.Gateway.Loss = "user:ada can then answer for their own calls no longer"
	if r := w.Run("pairing", "code"); r.Code != reason.Lookup(reason.LossNotAccepted).Exit || !strings.Contains(r.Err, "--yes") {
		t.Errorf("a loss: exit %d, %s", r.Code, r.Err)
	}
	if r := w.Run("pairing", "code", "--yes"); r.Code != 0 || !strings.Contains(r.Err, "no longer") {
		t.Errorf("a loss that is accepted: exit %d, %s", r.Code, r.Err)
	}
}

// TestQRCode: the QR code is printed, and the link contains everything that `palyra pair`
// needs.
func TestQRCode(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	r := w.Run("pairing", "code", "--qr", "--at", "192.0.2.7:7443")
	w.Want(r, 0)
	_, rest, _ := strings.Cut(r.Out, "'palyra://")
	text, _, _ := strings.Cut(rest, "'")
	l := must.Get(pairing.ParseLink("palyra://" + text))(t)
	if l.Address != "192.0.2.7:7443" || l.Code != clitest.PairingID || !strings.Contains(r.Out, "▄▄▄▄▄") {
		t.Errorf("the link is %+v in:\n%s", l, r.Out)
	}
	for line := range strings.Lines(r.Out) {
		if strings.HasPrefix(line, "█") && len([]rune(line)) > 60 {
			t.Errorf("the picture is %d wide", len([]rune(line)))
		}
	}
}

// machine returns a world whose machine has no credential, and its pairing host.
func machine(t *testing.T) (*clitest.World, *clitest.Pairings) {
	t.Helper()
	w := clitest.NewWorld(t)
	p := w.Pairings()
	delete(w.Env, "PALYRA_CREDENTIALS")
	return w, p
}

func typing(line string) printer.Streams {
	return printer.Streams{In: bytes.NewBufferString(line)}
}

func sum(der []byte) [32]byte { return sha256.Sum256(der) }

func left(t *testing.T, w *clitest.World) []string {
	t.Helper()
	var files []string
	must.Do(t, filepath.WalkDir(w.Env["XDG_CONFIG_HOME"], func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, filepath.Base(path))
		}
		return nil
	}))
	return files
}

// TestPair: the machine prints the comparison code that the approvers see, and gets its
// certificate. The next command uses it.
func TestPair(t *testing.T) {
	t.Parallel()
	w, p := machine(t)
	made := p.Code(t, pairing.PIN)
	p.Answers <- nil
	r := w.With(typing(made.Secret[:4]+" "+made.Secret[4:]), "pair", w.Address, "--name", "work", "--device", "laptop")
	w.Want(r, 0)
	if len(p.Asked) != 1 || !strings.Contains(r.Err, "comparison code: "+p.Asked[0].Comparison) || p.Asked[0].For.Name != "laptop" || !strings.Contains(r.Err, p.Asked[0].KeySHA256) {
		t.Errorf("people see %+v, the machine shows:\n%s", p.Asked, r.Err)
	}
	if !strings.Contains(r.Out, made.For.DeviceID) || strings.Contains(r.Out+r.Err, made.Secret) {
		t.Errorf("it says:\n%s%s", r.Out, r.Err)
	}
	w.Want(w.Run("status"), 0)
	if r := w.Run("context", "list"); !strings.Contains(r.Out, "work   yes") {
		t.Errorf("the contexts:\n%s", r.Out)
	}
	if r := w.With(typing(made.Secret), "pair", w.Address, "--name", "work"); r.Code == 0 || !strings.Contains(r.Err, "--name") {
		t.Errorf("once more into the same place: exit %d\n%s", r.Code, r.Err)
	}
}

// TestPairByLink: a link requires no typed PIN, and the command can print JSON.
func TestPairByLink(t *testing.T) {
	t.Parallel()
	w, p := machine(t)
	made := p.Code(t, pairing.QR)
	o := must.Get(p.Begin(made.ID))(t)
	l := pairing.Link{Address: w.Address, CA: sum(o.CA), Code: made.ID, Token: made.Secret}
	p.Answers <- nil
	r := w.With(typing(l.String()), "pair", "-", "-o", "json")
	w.Want(r, 0)
	var out map[string]any
	must.Do(t, json.Unmarshal([]byte(r.Out), &out))
	w.Want(w.Run("status"), 0)

	l.CA[0] ^= 1
	l.Code = p.Code(t, pairing.QR).ID
	r = w.Run("pair", l.String(), "--name", "other")
	if r.Code != reason.Lookup(reason.VerificationFailed).Exit || !strings.Contains(r.Err, "in the middle") {
		t.Errorf("another CA: exit %d\n%s", r.Code, r.Err)
	}
}

// TestPairRefused: every refusal has its remedy and leaves no files.
func TestPairRefused(t *testing.T) {
	t.Parallel()
	w, p := machine(t)
	pair := func(line string, args ...string) clitest.Result {
		return w.With(typing(line), append([]string{"pair"}, args...)...)
	}
	no := reason.Errorf(reason.ApprovalDenied, "user:ada said no").WithRemedy("Ask user:ada why.")
	for _, test := range []struct {
		name string
		do   func() clitest.Result
		code reason.Code
		want string
	}{
		{"no code", func() clitest.Result { return pair("12345678", w.Address) }, reason.NotFound, "no such pairing code"},
		{"no address", func() clitest.Result { return pair("", "gateway") }, reason.InvalidInput, "HOST:PORT"},
		{"no PIN", func() clitest.Result { p.Code(t, pairing.PIN); return pair("", w.Address) }, reason.InvalidInput, "standard input"},
		{"invalid PIN", func() clitest.Result { return pair("1234", w.Address) }, reason.InvalidInput, "8 digits"},
		{"a wrong PIN", func() clitest.Result { return pair("00000001", w.Address) }, reason.PairingFailed, "attempts left: 4"},
		{"a bad link", func() clitest.Result { return pair("", "palyra://pair?address=x") }, reason.InvalidInput, "--qr"},
		{"a bad name", func() clitest.Result { return pair("", w.Address, "--name", "No") }, reason.InvalidInput, "a-z"},
		{"a no", func() clitest.Result {
			p.Answers <- no
			made := p.Code(t, pairing.PIN)
			return pair(made.Secret, w.Address, "--code", made.ID)
		}, reason.ApprovalDenied, "Ask user:ada why."},
	} {
		r := test.do()
		if r.Code != reason.Lookup(test.code).Exit || !strings.Contains(r.Err, string(test.code)) || !strings.Contains(r.Err, test.want) || !strings.Contains(r.Err, "next: ") {
			t.Errorf("%s: exit %d\n%s%s", test.name, r.Code, r.Out, r.Err)
		}
		if files := left(t, w); len(files) != 0 {
			t.Errorf("%s leaves %q", test.name, files)
		}
	}
	if len(p.Paired) != 0 {
		t.Errorf("devices %v", p.Paired)
	}
}

// TestPairResumes: an interrupted pairing resumes with the same key, whether the answer arrived
// meanwhile or was lost.
func TestPairResumes(t *testing.T) {
	t.Parallel()
	w, p := machine(t)
	made := p.Code(t, pairing.PIN)
	ctx, interrupt := context.WithCancel(t.Context())
	waiting := &until{what: "waiting for approval", then: interrupt}
	r := w.Within(ctx, printer.Streams{In: bytes.NewBufferString(made.Secret + "\n"), Err: waiting}, "pair", w.Address, "--name", "work")
	if r.Code == 0 || !strings.Contains(r.Err, "repeat the command to continue") {
		t.Fatalf("interrupted: exit %d\n%s", r.Code, r.Err)
	}
	if files := left(t, w); slices.Contains(files, "cert.pem") || !slices.Contains(files, "key.pem") {
		t.Errorf("it leaves %q", files)
	}
	if r := w.Run("status"); r.Code == 0 {
		t.Error("half a bundle is used")
	}
	dir := filepath.Join(w.Env["XDG_CONFIG_HOME"], "palyra", "gateways", "work")
	key := must.Get(os.ReadFile(filepath.Join(dir, "key.pem")))(t)
	// killed removes the files that a machine lacks if it was killed before it wrote its
	// certificate.
	killed := func() {
		for _, name := range []string{"cert.pem", "key.pem"} {
			must.Do(t, os.Remove(filepath.Join(dir, name)))
		}
		must.Do(t, os.WriteFile(filepath.Join(dir, "key.pem"), key, 0o600))
	}
	p.Answers <- nil
	r = w.Run("pair", w.Address, "--name", "work")
	w.Want(r, 0)
	w.Want(w.Run("status"), 0)

	// The certificate was issued, but the machine was killed before it wrote the certificate.
	killed()
	w.Want(w.Run("context", "remove", "work"), 0)
	w.Want(w.Run("pair", w.Address, "--name", "work"), 0)
	if len(p.Paired) != 1 {
		t.Errorf("%d devices were made", len(p.Paired))
	}
	b := must.Get(identity.ReadBundle(dir))(t)
	if !identity.FitsChain(b.Key, b.Root, b.Chain) {
		t.Error("the bundle's parts do not belong together")
	}

	// The gateway no longer has the pairing.
	killed()
	w.Want(w.Run("context", "remove", "work"), 0)
	w.Pairings()
	r = w.Run("pair", w.Address, "--name", "work")
	if r.Code != reason.Lookup(reason.NotFound).Exit || !strings.Contains(r.Err, "next: ") {
		t.Errorf("after the gateway forgot: exit %d\n%s", r.Code, r.Err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is still there", dir)
	}
}

// until calls a function once a text is written.
type until struct {
	what string
	then func()
	seen bytes.Buffer
}

func (u *until) Write(b []byte) (int, error) {
	u.seen.Write(b)
	if strings.Contains(u.seen.String(), u.what) {
		u.then()
	}
	return len(b), nil
}
