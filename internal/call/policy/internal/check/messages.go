package check

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"

	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/text"
)

func messagesOf(err error) []string {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range joined.Unwrap() {
		out = append(out, messagesOf(e)...)
	}
	return out
}

// message is one kind of error, with the actions for which it was raised.
type message struct {
	text    string
	actions []string
}

// mergeActions joins messages that differ only in the action they name.
func mergeActions(raw []string) []message {
	var out []message
	for _, text := range raw {
		plain, action := cutAction(text)
		i := slices.IndexFunc(out, func(m message) bool { return m.text == plain })
		if i < 0 {
			out = append(out, message{text: plain})
			i = len(out) - 1
		}
		if action != "" && action != names.ToolPrefix+names.UnknownTool && !slices.Contains(out[i].actions, action) {
			out[i].actions = append(out[i].actions, action)
		}
	}
	for i := range out {
		slices.Sort(out[i].actions)
	}
	return out
}

// cutAction removes ` in context for Action::"name"` from a message.
func cutAction(text string) (plain, action string) {
	const mark = ` for Action::"`
	before, after, ok := strings.Cut(text, mark)
	if !ok {
		return text, ""
	}
	name, rest, ok := strings.Cut(after, `"`)
	if !ok {
		return text, ""
	}
	return before + rest, name
}

// forActions describes briefly the actions that a finding applies to.
func forActions(actions []string) string {
	switch len(actions) {
	case 0:
		return ""
	case 1, 2, 3:
		return " for " + strings.Join(actions, ", ")
	default:
		return " for " + strings.Join(actions[:2], ", ") + " and " + text.Plural(len(actions)-2, "more action")
	}
}

// verdicts caches the validator's messages for a policy under a schema. They depend on nothing
// else, and computing them is most of the work of a build. A build happens at each change of a
// member, a tool or a policy, and most of the validated policies are unchanged.
var verdicts = verdictMemory{now: map[verdictKey][]message{}}

// verdictKey is the SHA-256 of the schema's digest and the policy's text.
type verdictKey [sha256.Size]byte

// maxVerdicts bounds each of the two generations. It is the largest number of policies that
// palyrad is measured with. A verdict is mostly its key.
const maxVerdicts = 10_000

// verdictMemory holds the verdicts of two generations. A hit moves its entry to the newer one;
// when that is full, the older one is dropped.
type verdictMemory struct {
	mu          sync.Mutex
	now, before map[verdictKey][]message
}

func verdictKeyOf(schemaDigest, text string) verdictKey {
	return sha256.Sum256([]byte(schemaDigest + "\x00" + text))
}

// of returns the verdict of key, computed by judge on the first use. The caller must not modify
// the messages.
func (m *verdictMemory) of(key verdictKey, judge func() []message) []message {
	if found, ok := m.find(key); ok {
		return found
	}
	found := judge()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep(key, found)
	return found
}

func (m *verdictMemory) find(key verdictKey) ([]message, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.now[key]; ok {
		return found, true
	}
	found, ok := m.before[key]
	if ok {
		m.keep(key, found)
	}
	return found, ok
}

// keep adds a verdict. The caller holds m.mu.
func (m *verdictMemory) keep(key verdictKey, found []message) {
	if len(m.now) >= maxVerdicts {
		m.now, m.before = make(map[verdictKey][]message, maxVerdicts), m.now
	}
	m.now[key] = found
}
