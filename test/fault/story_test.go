//go:build linux

package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/call/decision"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
	"palyra/internal/store/sqlite"
)

// story is the content of the journal of a stopped palyrad.
type story struct {
	// allowed holds the proposals that were allowed; ends counts how often each was attested or
	// closed as ambiguous.
	allowed map[string]bool
	ends    map[string]int
	// files maps each file that calls write to their proposals.
	files map[string][]string
	// attested maps attestation ids to their sequence numbers.
	attested map[string]int64
	// asked holds the approvals; consumed counts how often each was consumed, and cited how many
	// decisions refer to it.
	asked    map[string]bool
	consumed map[string]int
	cited    map[string]int
}

func newStory() story {
	return story{
		allowed: map[string]bool{}, ends: map[string]int{}, files: map[string][]string{}, attested: map[string]int64{},
		asked: map[string]bool{}, consumed: map[string]int{}, cited: map[string]int{},
	}
}

// store returns the path of the store's file.
func (d *daemon) store() string { return filepath.Join(d.State, "palyra.db") }

// verifiers returns the gateway's id and the keys of the journal's checkpoints.
func (d *daemon) verifiers() (string, note.Verifiers) {
	d.T.Helper()
	text := must.Get(os.ReadFile(filepath.Join(d.State, "ca", "journal.key")))(d.T)
	key := strings.Fields(string(text))[1]
	known := must.Get(journal.ParseKeys(key))(d.T)
	verifier := must.Get(note.NewVerifier(key))(d.T)
	return verifier.Name(), known
}

// verify verifies the journal of a stopped palyrad.
func (d *daemon) verify() error {
	d.T.Helper()
	gateway, known := d.verifiers()
	_, err := sqlite.Verify(d.T.Context(), d.store(), gateway, known)
	return err
}

// read reads the journal of a stopped palyrad.
func (d *daemon) read() story {
	d.T.Helper()
	db := must.Get(sqlite.OpenReadOnly(d.T.Context(), d.store()))(d.T)
	s := newStory()
	err := db.Scan(d.T.Context(), 0, db.Head().Seq, s.add)
	must.Do(d.T, errors.Join(err, db.Close(d.T.Context())))
	return s
}

func (s story) add(e *journal.Event) error {
	switch e.Code {
	case event.Evaluated:
		var p record.Evaluated
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			return err
		}
		if file := p.Request.Facts.Path; file != "" { // the arguments are sealed
			s.files[file] = append(s.files[file], e.Subject)
		}
	case event.Decided:
		var d decision.Record
		if err := json.Unmarshal(e.Payload, &d); err != nil {
			return err
		}
		if d.Allowed {
			s.allowed[e.Subject] = true
			s.cited[d.ApprovalID]++
		}
	case event.Attested:
		var a record.Attested
		if err := json.Unmarshal(e.Payload, &a); err != nil {
			return err
		}
		s.attested[a.AttestationID] = e.Seq
		s.ends[e.Subject]++
	case event.Ambiguous:
		s.ends[e.Subject]++
	case event.Asked:
		s.asked[e.Subject] = true
	case event.Consumed:
		s.consumed[e.Subject]++
	}
	return nil
}

// effects lists the files that calls wrote.
func (d *daemon) effects() []string {
	d.T.Helper()
	entries := must.Get(os.ReadDir(d.Workspace))(d.T)
	var list []string
	for _, e := range entries {
		// A killed palyrad may leave a temporary file that it was about to rename. No client sees
		// that name.
		if !strings.HasPrefix(e.Name(), ".palyra-") {
			list = append(list, e.Name())
		}
	}
	return list
}

// problems lists the violated invariants, given the effects and the answers that clients received.
func (s story) problems(effects []string, told []reply) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for id := range s.allowed {
		if s.ends[id] != 1 {
			add("call %s was started and has %d ends", id, s.ends[id])
		}
	}
	for id := range s.ends {
		if !s.allowed[id] {
			add("call %s has an end and was not decided", id)
		}
	}
	for id, n := range s.consumed {
		if n > 1 {
			add("approval %s was consumed %d times", id, n)
		}
	}
	for id, n := range s.cited {
		if id != "" && n > 1 {
			add("approval %s served %d calls", id, n)
		}
	}
	for _, file := range effects {
		if !slices.ContainsFunc(s.files[file], func(id string) bool { return s.allowed[id] }) {
			add("%s was written and no decision is on record", file)
		}
	}
	for _, r := range told {
		list = append(list, s.contradictions(effects, r)...)
	}
	return list
}

// contradictions lists the answers of clients that the journal does not contain.
func (s story) contradictions(effects []string, r reply) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if r.attestation != "" && s.attested[r.attestation] != r.seq {
		add("a client was told of attestation %s at event %d, the journal has it at %d", r.attestation, r.seq, s.attested[r.attestation])
	}
	if r.allowed && !s.allowed[r.proposal] {
		add("a client was told that call %s was allowed, and no decision is on record", r.proposal)
	}
	if r.approval != "" && !s.asked[r.approval] {
		add("a client was told of approval %s, and nobody was asked on record", r.approval)
	}
	if r.outcome == "succeeded" && r.attestation != "" && !slices.Contains(effects, r.file) {
		add("a client was told that %s was written, and it is not there", r.file)
	}
	return list
}

// holds fails the test if the journal of the stopped palyrad does not verify, or differs from the
// effects and the answers of clients.
func (d *daemon) holds(told []reply) story {
	d.T.Helper()
	if err := d.verify(); err != nil {
		d.T.Fatalf("the journal does not verify: %v", err)
	}
	s := d.read()
	for _, problem := range s.problems(d.effects(), told) {
		d.T.Error(problem)
	}
	return s
}

// TestStoryFindsDefects is the control of every test of this package: each violation of an
// invariant is found.
func TestStoryFindsDefects(t *testing.T) {
	t.Parallel()
	whole := func() story {
		s := newStory()
		s.allowed["p"], s.ends["p"], s.files["f"], s.attested["t"] = true, 1, []string{"p"}, 7
		s.asked["x"], s.consumed["x"], s.cited["x"] = true, 1, 1
		return s
	}
	told := reply{file: "f", proposal: "p", approval: "x", allowed: true, outcome: "succeeded", attestation: "t", seq: 7}
	if found := whole().problems([]string{"f"}, []reply{told}); len(found) > 0 {
		t.Fatalf("a whole story has problems: %v", found)
	}
	for name, c := range map[string]struct {
		damage  func(story)
		effects []string
		want    int
	}{
		"no end":               {func(s story) { delete(s.ends, "p") }, []string{"f"}, 1},
		"two ends":             {func(s story) { s.ends["p"] = 2 }, []string{"f"}, 1},
		"end without decision": {func(s story) { s.ends["q"] = 1 }, []string{"f"}, 1},
		"consumed twice":       {func(s story) { s.consumed["x"] = 2 }, []string{"f"}, 1},
		"served two calls":     {func(s story) { s.cited["x"] = 2 }, []string{"f"}, 1},
		"undecided effect":     {func(story) {}, []string{"f", "g"}, 1},
		"lost attestation":     {func(s story) { delete(s.attested, "t") }, []string{"f"}, 1},
		"moved attestation":    {func(s story) { s.attested["t"] = 8 }, []string{"f"}, 1},
		// The effect, the end and the reply then have no decision.
		"lost decision": {func(s story) { delete(s.allowed, "p") }, []string{"f"}, 3},
		"lost approval": {func(s story) { delete(s.asked, "x") }, []string{"f"}, 1},
		"lost effect":   {func(story) {}, nil, 1},
	} {
		s := whole()
		c.damage(s)
		if found := s.problems(c.effects, []reply{told}); len(found) != c.want {
			t.Errorf("%s: found %v", name, found)
		}
	}
}
