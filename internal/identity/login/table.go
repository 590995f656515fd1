package login

import (
	"container/list"
	"crypto"
	"crypto/rand"
	"crypto/subtle"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"palyra/internal/core/reason"
)

const (
	// life is how long a login waits for its person.
	life = 10 * time.Minute
	// mostOpen limits the waiting logins, and mostOfOne the logins of one address. The total is
	// about 12 MiB, and one address cannot block the others.
	mostOpen  = 4096
	mostOfOne = 64
	// maxCSR is the maximum size of a certificate request in bytes, far above the size for a
	// supported key.
	maxCSR = 2 << 10
)

// waiting is a pending login. The fields above mu never change once the login is in the table.
type waiting struct {
	id, address string
	csr         []byte
	key         crypto.PublicKey
	// redirect is "" for a device flow, which has no state, nonce or verifier.
	redirect               string
	state, nonce, verifier string
	ends                   time.Time
	at                     *list.Element

	mu sync.Mutex
	// deviceCode is sent to the provider until expires, at every interval, and not before next.
	deviceCode    string
	interval      time.Duration
	next, expires time.Time
}

// table holds the waiting logins. All have the same lifetime, so that the first one of byAge
// ends first.
type table struct {
	now    func() time.Time
	mu     sync.Mutex
	byID   map[string]*waiting
	ofOne  map[string]int
	byAge  list.List
	most   int
	perOne int
}

func newTable(now func() time.Time) *table {
	return &table{now: now, byID: map[string]*waiting{}, ofOne: map[string]int{}, most: mostOpen, perOne: mostOfOne}
}

// add adds a login to the table and generates its secrets. If the table is full, it refuses the
// new login: otherwise a stranger could displace waiting logins.
func (t *table) add(w *waiting) error {
	w.id = rand.Text()
	if w.redirect != "" {
		w.state, w.nonce, w.verifier = rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for e := t.byAge.Front(); e != nil; e = t.byAge.Front() {
		old, _ := e.Value.(*waiting)
		if now.Before(old.ends) {
			break
		}
		t.remove(old)
	}
	switch {
	case t.ofOne[w.address] >= t.perOne:
		return tooMany("too many logins from this address wait for their person")
	case len(t.byID) >= t.most:
		return tooMany("too many logins wait for their person")
	}
	w.ends = now.Add(life)
	t.byID[w.id], w.at = w, t.byAge.PushBack(w)
	t.ofOne[w.address]++
	return nil
}

func tooMany(what string) error {
	return reason.Errorf(reason.RateLimited, "%s", what).WithField("retry_after", life.String()).
		WithRemedy("Finish a pending login, or try again in %s.", life)
}

// find returns a login that still waits, or nil.
func (t *table) find(id string) *waiting {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.byID[id]
	if w == nil || !t.now().Before(w.ends) {
		return nil
	}
	return w
}

// take removes a login and reports whether it was present: of concurrent answers, only one
// succeeds.
func (t *table) take(w *waiting) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[w.id] != w {
		return false
	}
	t.remove(w)
	return true
}

func (t *table) drop(w *waiting) { t.take(w) }

func (t *table) remove(w *waiting) {
	delete(t.byID, w.id)
	t.byAge.Remove(w.at)
	if t.ofOne[w.address]--; t.ofOne[w.address] == 0 {
		delete(t.ofOne, w.address)
	}
}

// same compares two texts in constant time. An empty want equals no text.
func same(want, got string) bool {
	return want != "" && subtle.ConstantTimeCompare([]byte(want), []byte(got)) == 1
}
