package mcp

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/reason"
	"palyra/internal/vault/aead"
)

// inputs holds the requests that the client must fulfil before a call continues.
type inputs struct {
	// approval is the approval that the client is notified of, question the request of an upstream
	// server.
	approval, question string
	// ends is the expiry time of the state.
	ends     time.Time
	requests mcp.InputRequestMap
}

// state is the data that a client returns with a repeated call. It is a ticket and grants no
// authority: without it, the same call also joins the waiting one. With it, the client does not
// receive the same request again.
type state struct {
	Owner    string    `json:"owner"`
	Digest   string    `json:"digest"`
	Approval string    `json:"approval,omitempty"`
	Question string    `json:"question,omitempty"`
	Nonce    string    `json:"nonce"`
	Ends     time.Time `json:"ends"`
}

// stateAbout is the associated data of sealed states.
const stateAbout = "palyra mcp request state"

// mostStates bounds the used states in memory.
const mostStates = 10_000

// states seals states, each for one use. The key belongs to this process: after a restart all
// sealed states are invalid.
type states struct {
	key  []byte
	used usedStates
}

// usedStates holds the used states that have not expired. Several replicas need an implementation
// that they share.
type usedStates interface {
	// use reports whether a nonce is used for the first time. It is atomic.
	use(nonce string, ends, now time.Time) bool
}

func newStates(key []byte) *states {
	return &states{key: key, used: &usedInMemory{ends: make(map[string]time.Time)}}
}

func (s *states) seal(v *httpRequest, digest string, in *inputs) (string, error) {
	plain, err := json.Marshal(state{v.owner(), digest, in.approval, in.question, rand.Text(), in.ends})
	if err != nil {
		return "", err
	}
	box, err := aead.Seal(s.key, plain, []byte(stateAbout))
	return base64.RawURLEncoding.EncodeToString(box), err
}

// open decrypts, verifies and consumes a state.
func (s *states) open(v *httpRequest, digest, sealed string) (state, error) {
	refused := func(why string) (state, error) {
		return state{}, reason.Errorf(reason.InvalidInput, "requestState is not valid: %s; make the call without it", why)
	}
	var st state
	box, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return refused("it was modified, or the gateway was restarted")
	}
	plain, err := aead.Open(s.key, box, []byte(stateAbout))
	if err != nil || json.Unmarshal(plain, &st) != nil {
		return refused("it was modified, or the gateway was restarted")
	}
	now := time.Now()
	switch {
	case st.Owner != v.owner():
		return refused("it was issued to another caller")
	case st.Digest != digest:
		return refused("it was issued for another call")
	case now.After(st.Ends):
		return refused("it has expired")
	case !s.used.use(st.Nonce, st.Ends, now):
		return refused("it was already used")
	}
	return st, nil
}

// usedInMemory is the implementation of usedStates for one process.
type usedInMemory struct {
	mu   sync.Mutex
	ends map[string]time.Time
}

func (m *usedInMemory) use(nonce string, ends, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, used := m.ends[nonce]; used {
		return false
	}
	if len(m.ends) >= mostStates {
		for known, end := range m.ends {
			if now.After(end) {
				delete(m.ends, known)
			}
		}
		if len(m.ends) >= mostStates {
			return false // a nonce that cannot be stored is refused
		}
	}
	m.ends[nonce] = ends
	return true
}
