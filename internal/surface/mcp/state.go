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

// inputs are what an answer wants of the client before a call goes on.
type inputs struct {
	// approval is the one that the client is told of, question the one of an upstream
	// server.
	approval, question string
	// ends is until when the state is good.
	ends     time.Time
	requests mcp.InputRequestMap
}

// state is what a client gives back with a repeated call. It is a ticket and no
// authority: without it the same call would join what waits as well. With it the client
// is not asked again for what it was asked.
type state struct {
	Owner    string    `json:"owner"`
	Digest   string    `json:"digest"`
	Approval string    `json:"approval,omitempty"`
	Question string    `json:"question,omitempty"`
	Nonce    string    `json:"nonce"`
	Ends     time.Time `json:"ends"`
}

// stateAbout is what the boxes of states are bound to.
const stateAbout = "palyra mcp request state"

// mostStates bounds the used ones that are remembered.
const mostStates = 10_000

// states seals states, each for one use. The key is of this process: after a restart
// nothing of what it sealed is good.
type states struct {
	key []byte

	mu   sync.Mutex
	used map[string]time.Time
}

func newStates(key []byte) *states { return &states{key: key, used: make(map[string]time.Time)} }

func (s *states) seal(v *visit, digest string, in *inputs) (string, error) {
	plain, err := json.Marshal(state{v.owner(), digest, in.approval, in.question, rand.Text(), in.ends})
	if err != nil {
		return "", err
	}
	box, err := aead.Seal(s.key, plain, []byte(stateAbout))
	return base64.RawURLEncoding.EncodeToString(box), err
}

// open uses a state up.
func (s *states) open(v *visit, digest, sealed string) (state, error) {
	refused := func(why string) (state, error) {
		return state{}, reason.Errorf(reason.InvalidInput, "the requestState is not good: %s; make the call without it", why)
	}
	var st state
	box, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return refused("it was changed, or the gateway was started anew")
	}
	plain, err := aead.Open(s.key, box, []byte(stateAbout))
	if err != nil || json.Unmarshal(plain, &st) != nil {
		return refused("it was changed, or the gateway was started anew")
	}
	now := time.Now()
	switch {
	case st.Owner != v.owner():
		return refused("it was given to somebody else")
	case st.Digest != digest:
		return refused("it was given for another call")
	case now.After(st.Ends):
		return refused("its time is over")
	case !s.use(st.Nonce, st.Ends, now):
		return refused("it was used before")
	}
	return st, nil
}

// use reports whether a nonce was not used before.
func (s *states) use(nonce string, ends, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, used := s.used[nonce]; used {
		return false
	}
	if len(s.used) >= mostStates {
		for known, end := range s.used {
			if now.After(end) {
				delete(s.used, known)
			}
		}
		if len(s.used) >= mostStates {
			return false // what cannot be remembered is not let through
		}
	}
	s.used[nonce] = ends
	return true
}
