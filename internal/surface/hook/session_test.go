package hook_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/call/approval"
	"palyra/internal/call/policy/profile"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
)

// laptop returns the policies of the profile laptop.
func laptop(t *testing.T) string {
	t.Helper()
	for _, p := range profile.All() {
		if p.Name != "laptop" {
			continue
		}
		var text strings.Builder
		for _, f := range p.Files() {
			if strings.HasSuffix(f.Name, ".cedar") {
				text.WriteString(f.Text)
			}
		}
		return text.String()
	}
	t.Fatal("profile laptop not found")
	return ""
}

// forTheSession returns the vote of an approver who approves for the session with the widest
// offered match.
func forTheSession(r *approval.Record) approval.Ballot {
	b := approval.Ballot{Allow: true, Scope: approval.Session, Match: approval.MatchSubject}
	if r.ExactOnly != "" {
		b.Match = approval.MatchExact
	}
	return b
}

// TestOrdinarySession replays the messages that the hooks of Claude Code 2.1 sent in a session:
// reads, searches, edits in the workspace, and tests. Under the profile laptop at most three
// approvals are requested, and every call is decided and reported.
func TestOrdinarySession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, laptop(t))
	text := string(must.Get(os.ReadFile(filepath.Join("testdata", "session.jsonl")))(t))
	text = strings.NewReplacer("@WS@", w.ws, "@HOME@", w.out).Replace(text)
	for _, name := range []string{"parse.go", "parse_test.go"} {
		must.Do(t, os.WriteFile(filepath.Join(w.ws, name), []byte("package parse\n"), 0o600))
	}
	stop := w.people(forTheSession)
	asked, ran := 0, 0
	for line := range strings.Lines(text) {
		a := w.send(t.Context(), "claude-code", line)
		before := strings.Contains(line, `"PreToolUse"`)
		if a.status != 200 || before && a.decision != "allow" || !before && a.decision != "none" {
			t.Errorf("%s: %+v", line, a)
		}
		if before {
			ran++
		}
	}
	for _, r := range stop() {
		t.Log("asked: " + r.Prompt.Summary)
		asked++
	}
	if asked > 3 || asked == 0 {
		t.Errorf("people were asked %d times", asked)
	}
	if n := len(w.eventually(event.Attested, ran)); n != ran || len(w.events(event.Ungoverned))+len(w.events(event.RanOther)) != 0 {
		t.Errorf("%d of %d calls were reported, with alarms %d", n, ran, len(w.events(event.Ungoverned)))
	}
}
