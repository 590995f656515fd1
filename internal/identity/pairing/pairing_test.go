package pairing

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity"
)

// TestPairing runs all steps, for both kinds of code.
func TestPairing(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{PIN, QR} {
		t.Run(string(kind), func(t *testing.T) {
			g := newGateway(t)
			made := g.code(kind)
			c, w := newCandidate(t), connect(t, g.leaf)
			must.Do(t, exchange(g, c, w, made.ID, made.Secret))
			if len(g.asked) != 1 || g.asked[0].Comparison != c.Comparison() || g.asked[0].KeySHA256 != fingerprint(t, c) ||
				g.asked[0].Address != "192.0.2.7" || g.asked[0].For.Name != "laptop" {
				t.Fatalf("people are asked %+v; the candidate shows %q", g.asked, c.Comparison())
			}
			g.allow("ann")
			later := connect(t, g.leaf) // any connection is valid
			got := must.Get(collect(g, c, later))(t)
			if got.Chain != "certificate of "+made.For.DeviceID || got.Member != "user:ann" {
				t.Errorf("collected %+v", got)
			}
			if again := must.Get(collect(g, c, later))(t); again != got || len(g.paired) != 1 {
				t.Errorf("collected again %+v, with %d devices made", again, len(g.paired))
			}
			p := g.paired[0]
			if g.used != 1 {
				t.Errorf("the answer was used %d times", g.used)
			}
			if p.ApprovalID != "APPROVAL" || !slices.Equal(p.ApprovedBy, []access.Principal{access.User("ann")}) || p.Code != made.ID {
				t.Errorf("the device is made of %+v", p)
			}
			if want := []event.Code{event.PairingOpened, event.PairingProved}; !slices.Equal(g.events, want) {
				t.Errorf("journaled %v, want %v", g.events, want)
			}
			reasontest.Want(t, "the error", exchange(g, newCandidate(t), connect(t, g.leaf), made.ID, made.Secret), reason.NotFound)
		})
	}
}

// TestWithoutAnswer: without an approval no device is created, and the candidate is instructed
// to wait.
func TestWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t)
		made := g.code(PIN)
		c, w := newCandidate(t), connect(t, g.leaf)
		must.Do(t, exchange(g, c, w, made.ID, made.Secret))
		if got := must.Get(collect(g, c, w))(t); !got.Waiting || got.Chain != "" || len(g.paired) != 0 {
			t.Errorf("before anybody answered: %+v, devices %v", got, g.paired)
		}
		time.Sleep(DefaultTTL + collectWithin)
		_, err := collect(g, c, w)
		reasontest.Want(t, "the error", err, reason.NotFound)
	})
}

// TestWrongPIN: after five wrong guesses, the code is refused even with the right PIN. No
// approval is requested, and the candidate sends nothing after it saw the gateway's
// confirmation.
func TestWrongPIN(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t)
		made := g.code(PIN)
		for i := range MostGuesses {
			w := connect(t, g.leaf)
			w.server.Address = fmt.Sprintf("192.0.2.%d", i) // avoids the lockout
			reasontest.Want(t, "the error", exchange(g, newCandidate(t), w, "", wrong(made.Secret)), reason.PairingFailed)
		}
		reasontest.Want(t, "the error", exchange(g, newCandidate(t), connect(t, g.leaf), made.ID, made.Secret), reason.NotFound)
		if len(g.asked) != 0 {
			t.Errorf("people were asked %v", g.asked)
		}
		time.Sleep(answerWithin + time.Second)
		if list := g.List(t.Context(), access.User("ann"), false); len(list) != 0 || g.events[len(g.events)-1] != event.PairingEnded {
			t.Errorf("the dead code is listed: %+v; journaled %v", list, g.events)
		}
		// Control: after four guesses, the right one succeeds.
		made = g.code(PIN)
		for i := range MostGuesses - 1 {
			w := connect(t, g.leaf)
			w.server.Address = fmt.Sprintf("192.0.2.%d", 100+i)
			reasontest.Want(t, "the error", exchange(g, newCandidate(t), w, "", wrong(made.Secret)), reason.PairingFailed)
		}
		w := connect(t, g.leaf)
		w.server.Address = "192.0.2.200"
		must.Do(t, exchange(g, newCandidate(t), w, "", made.Secret))
	})
}

// TestLockout: an address with wrong guesses is locked out, also for the next code. Guesses
// during the lockout do not count against a code. Control: another address.
func TestLockout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t)
		first := g.code(PIN)
		for range wrongGuesses.Free + 1 {
			reasontest.Want(t, "the error", exchange(g, newCandidate(t), connect(t, g.leaf), first.ID, wrong(first.Secret)), reason.PairingFailed)
		}
		second := g.code(PIN)
		reasontest.Want(t, "the error", exchange(g, newCandidate(t), connect(t, g.leaf), second.ID, second.Secret), reason.RateLimited)
		if n := g.codes[second.ID].Guesses; n != 0 {
			t.Errorf("%d guesses that were refused count", n)
		}
		other := connect(t, g.leaf)
		other.server.Address = "192.0.2.8"
		must.Do(t, exchange(g, newCandidate(t), other, second.ID, second.Secret))
		time.Sleep(wrongGuesses.First)
		third := g.code(PIN)
		must.Do(t, exchange(g, newCandidate(t), connect(t, g.leaf), third.ID, third.Secret))
	})
}

// TestGuessesAtOnce: a hundred concurrent guesses count as at most five. Control: an
// implementation that counts after the check.
func TestGuessesAtOnce(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made := g.code(PIN)
	o := must.Get(g.Begin(made.ID))(t)
	w := connect(t, g.leaf)
	const parallel = 100
	proofs := make([]Proof, parallel)
	c := newCandidate(t)
	p := must.Get(c.Prove(wrong(made.Secret), "", o, w.client))(t)
	for i := range proofs {
		proofs[i] = p
	}
	guesses := func(begin func(i int) bool) int64 {
		var answered atomic.Int64
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range parallel {
			all.Go(func() {
				<-start
				if begin(i) {
					answered.Add(1)
				}
			})
		}
		close(start)
		all.Wait()
		return answered.Load()
	}
	n := guesses(func(i int) bool {
		conn := w.server
		conn.Address = fmt.Sprintf("198.51.100.%d", i)
		_, err := g.Prove(conn, proofs[i])
		return err == nil
	})
	if n != 5 { // of 10^8 possible ones
		t.Errorf("%d of %d guesses at once were answered, want 5", n, parallel)
	}
	var looked atomic.Int64
	var arrived sync.WaitGroup
	arrived.Add(parallel)
	control := guesses(func(int) bool {
		ok := looked.Load() < MostGuesses
		arrived.Done()
		arrived.Wait() // while the share is computed
		looked.Add(1)
		return ok
	})
	if control <= MostGuesses {
		t.Errorf("the control answered %d guesses; the test shows nothing", control)
	}
}

// TestBounded: a million requests of unauthenticated clients leave no state, and the state that
// they can create is bounded.
func TestBounded(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made := g.code(PIN)
	for i := range 1_000_000 {
		id := made.ID
		if i%2 == 1 {
			id = fmt.Sprintf("code%d", i)
		}
		if _, err := g.Begin(id); (err == nil) != (i%2 == 0) {
			t.Fatal(err)
		}
	}
	for i := range 10_000 {
		_, _, _ = g.spend(fmt.Sprintf("code%d", i), fmt.Sprintf("10.%d.%d.1", i/250, i%250))
	}
	if len(g.codes) != 1 || len(g.attempts) != 0 || len(g.tries.counts) > mostTried+1 || g.lockout.Len() > 10_000 {
		t.Errorf("kept: %d codes, %d attempts, %d kinds of tries, %d addresses", len(g.codes), len(g.attempts), len(g.tries.counts), g.lockout.Len())
	}
	for range mostOfOne - 1 {
		g.code(PIN)
	}
	_, err := g.Create(t.Context(), Request{Kind: PIN, For: identity.Pairing{Member: access.User("ann"), MadeBy: access.User("ann")}})
	reasontest.Want(t, "the error", err, reason.RateLimited)
}

// TestEnds: each event that ends a code leaves it in the expected state.
func TestEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(g *gateway, id string){
		"expired": func(*gateway, string) { time.Sleep(DefaultTTL + time.Second) },
		"cancelled": func(g *gateway, id string) {
			must.Get(g.Cancel(g.t.Context(), access.User("ann"), false, id))(g.t)
		},
		"member":  func(g *gateway, _ string) { g.EndOf(g.t.Context(), access.User("ann")) },
		"restart": func(g *gateway, _ string) { g.restart() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGateway(t)
				made := g.code(PIN)
				end(g, made.ID)
				reasontest.Want(t, "the error", exchange(g, newCandidate(t), connect(t, g.leaf), made.ID, made.Secret), reason.NotFound)
				reasontest.Want(t, "the error", exchange(g, newCandidate(t), connect(t, g.leaf), "", made.Secret), reason.NotFound)
				if list := g.List(t.Context(), access.User("ann"), true); len(list) != 0 {
					t.Errorf("it is listed: %+v", list)
				}
			})
		})
	}
}

// TestRunEndsAndRecords: Run ends an expired code without a request, and journals guesses at
// most once a minute.
func TestRunEndsAndRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t)
		made := g.code(PIN)
		reasontest.Want(t, "the error", exchange(g, newCandidate(t), connect(t, g.leaf), made.ID, wrong(made.Secret)), reason.PairingFailed)
		reasontest.Want(t, "the error", exchange(g, newCandidate(t), connect(t, g.leaf), made.ID, wrong(made.Secret)), reason.PairingFailed)
		time.Sleep(DefaultTTL + 2*time.Minute)
		synctest.Wait()
		g.mu.Lock()
		defer g.mu.Unlock()
		if want := []event.Code{event.PairingOpened, event.PairingTried, event.PairingEnded}; !slices.Equal(g.events, want) {
			t.Errorf("journaled %v, want %v", g.events, want)
		}
	})
}

// TestRestartKillsPairings: a restart discards an approval whose device was not created. A
// created device can be collected again, only with its key.
func TestRestartKillsPairings(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made := g.code(PIN)
	c := newCandidate(t)
	must.Do(t, exchange(g, c, connect(t, g.leaf), "", made.Secret))
	g.restart()
	_, err := collect(g, c, connect(t, g.leaf))
	reasontest.Want(t, "the error", err, reason.NotFound)
	if len(g.paired) != 0 {
		t.Errorf("devices %v", g.paired)
	}

	made = g.code(PIN)
	must.Do(t, exchange(g, c, connect(t, g.leaf), "", made.Secret))
	g.allow("ann")
	must.Get(collect(g, c, connect(t, g.leaf)))(t)
	g.restart()
	if got := must.Get(collect(g, c, connect(t, g.leaf)))(t); !strings.HasSuffix(got.Chain, "again") {
		t.Errorf("collected %+v", got)
	}
	_, err = collect(g, newCandidate(t), connect(t, g.leaf))
	reasontest.Want(t, "the error", err, reason.NotFound)
}

// TestRefusedByPeople: a denial ends the pairing, and its candidate receives the reason.
func TestRefusedByPeople(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made := g.code(PIN)
	c := newCandidate(t)
	must.Do(t, exchange(g, c, connect(t, g.leaf), "", made.Secret))
	g.answers <- answered{no: reason.Errorf(reason.ApprovalDenied, "user:bob said no")}
	_, err := collect(g, c, connect(t, g.leaf))
	reasontest.Want(t, "the error", err, reason.ApprovalDenied)
	_, err = collect(g, c, connect(t, g.leaf))
	reasontest.Want(t, "the error", err, reason.NotFound)
	if len(g.paired) != 0 {
		t.Errorf("devices %v", g.paired)
	}
}

// TestJournalRefuses: a step that cannot be journaled has no effect.
func TestJournalRefuses(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made := g.code(PIN)
	g.full = true
	_, err := g.Create(t.Context(), Request{Kind: PIN, For: identity.Pairing{Member: access.User("ann"), MadeBy: access.User("ann")}})
	reasontest.Want(t, "the error", err, reason.JournalUnavailable)
	c := newCandidate(t)
	reasontest.Want(t, "the error", exchange(g, c, connect(t, g.leaf), "", made.Secret), reason.JournalUnavailable)
	g.full = false
	if _, err := collect(g, c, connect(t, g.leaf)); err == nil || len(g.asked)+len(g.paired) != 0 {
		t.Errorf("after a line that was not written: %v, asked %v, devices %v", err, g.asked, g.paired)
	}
}

// TestCodesOfOthers: a member without the permission to list all codes can list their own.
func TestCodesOfOthers(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	made := g.code(PIN)
	if list := g.List(t.Context(), access.User("bob"), false); len(list) != 0 {
		t.Errorf("bob sees %+v", list)
	}
	_, err := g.Cancel(t.Context(), access.User("bob"), false, made.ID)
	reasontest.Want(t, "the error", err, reason.NotFound)
	must.Get(g.Cancel(t.Context(), access.User("bob"), true, made.ID))(t)
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	ann := identity.Pairing{Member: access.User("ann"), MadeBy: access.User("ann")}
	for _, r := range []Request{
		{For: ann}, {Kind: "word", For: ann}, {Kind: PIN, TTL: time.Second, For: ann}, {Kind: PIN, TTL: 2 * time.Hour, For: ann}, {Kind: PIN, TTL: -1, For: ann},
	} {
		_, err := g.Create(t.Context(), r)
		reasontest.Want(t, "the error", err, reason.InvalidInput)
	}
	_, err := g.Create(t.Context(), Request{Kind: PIN, For: identity.Pairing{Member: access.User("nobody")}})
	reasontest.Want(t, "the error", err, reason.NotFound)
}

// TestRequestIsSmall: a certificate request that is larger than a key needs is refused.
func TestRequestIsSmall(t *testing.T) {
	t.Parallel()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	for size, want := range map[int]reason.Code{1 << 10: "", 5 << 10: reason.InvalidInput} {
		more := pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 9999}, Value: make([]byte, size)}
		der := must.Get(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{ExtraExtensions: []pkix.Extension{more}}, key))(t)
		if _, err := requested(der); reason.Of(err) != want {
			t.Errorf("a request of %d bytes: %v", len(der), err)
		}
	}
}

// TestSeveralPINs: without an id, a request selects the only open PIN.
func TestSeveralPINs(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.code(QR)
	_, err := g.Begin("")
	reasontest.Want(t, "the error", err, reason.NotFound)
	first := g.code(PIN)
	if o := must.Get(g.Begin(""))(t); o.Code != first.ID {
		t.Errorf("the code is %s, want %s", o.Code, first.ID)
	}
	g.code(PIN)
	_, err = g.Begin("")
	reasontest.Want(t, "the error", err, reason.InvalidInput)
}

func TestPINs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		pin := must.Get(newSecret(PIN))(t)
		if tidy, err := TidyPIN(" " + pin[:4] + " " + pin[4:] + "\n"); err != nil || tidy != pin || len(pin) != 8 {
			t.Errorf("%q is read as %q: %v", pin, tidy, err)
		}
		seen[pin] = true
	}
	if len(seen) < 99 {
		t.Errorf("%d different PINs of 100", len(seen))
	}
	for _, bad := range []string{"", "1234567", "123456789", "1234567a", "\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18", "+1234567"} {
		_, err := TidyPIN(bad)
		reasontest.Want(t, "the error", err, reason.InvalidInput)
	}
}

func TestLink(t *testing.T) {
	t.Parallel()
	l := Link{Address: "[2001:db8::1]:7443", CA: [32]byte{1, 2}, Code: "abcd2345", Token: must.Get(newSecret(QR))(t)}
	if got := must.Get(ParseLink(l.String()))(t); got != l || !IsLink(l.String()) || len(l.String()) > 200 {
		t.Errorf("%s is read as %+v", l, got)
	}
	// The console also writes links: web/src/screens/devices/pairing.test.ts has the same one.
	written := "palyra://pair?address=192.0.2.7%3A7443&ca=-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_8&code=k7qf3m2x&token=AAECAwQFBgcICQoLDA0ODw"
	if got := must.Get(ParseLink(written))(t); got.Address != "192.0.2.7:7443" || got.CA[30] != 0xfb || got.CA[31] != 0xff || got.Code != "k7qf3m2x" {
		t.Errorf("%s is read as %+v", written, got)
	}
	text := l.String()
	for _, bad := range []string{
		"", "palyra:", strings.Replace(text, "palyra:", "https:", 1), strings.Replace(text, "//pair", "//pear", 1), text + "&x=1", text + "&code=b",
		strings.Replace(text, "token=", "token=A", 1), strings.Replace(text, "ca=", "ca=A", 1), strings.Replace(text, "address=", "addr=", 1), text + "#x", text[:len(text)-1],
		strings.Replace(text, "7443", "", 1) + "%00",
	} {
		_, err := ParseLink(bad)
		reasontest.Want(t, "the error", err, reason.InvalidInput)
	}
}
