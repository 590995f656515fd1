package tui_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/tui"
	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
)

// seat is a screen with a fake gateway.
type seat struct {
	*tui.Seat
	t   *testing.T
	w   *clitest.World
	now time.Time
}

func newScreen(t *testing.T, colour bool) *seat {
	t.Helper()
	s := &seat{t: t, w: clitest.NewWorld(t), now: clitest.Now}
	a := client.NewApp(printer.Streams{
		OutTerminal: true, Getenv: func(name string) string { return s.w.Env[name] }, Environ: func() []string { return nil },
		In: strings.NewReader(""), Out: new(strings.Builder), Err: new(strings.Builder),
	})
	a.NoColor = !colour
	a.Now = func() time.Time { return s.now }
	s.Seat = tui.NewSeat(a, must.Get(a.Connect(t.Context()))(t))
	s.Tell(tea.WindowSizeMsg{Width: 80, Height: 24})
	return s
}

// asks adds an approval to the gateway and passes it to the screen.
func (s *seat) asks(v *palyrav1.Approval) {
	s.w.Gateway.Approvals[v.GetApprovalId()] = v
	s.Tell(tui.Changed(v))
}

var named = map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "pgdown": tea.KeyPgDown, "end": tea.KeyEnd, "home": tea.KeyHome}

// keys presses keys with a second between them.
func (s *seat) keys(list ...string) {
	for _, name := range list {
		s.now = s.now.Add(time.Second)
		s.press(name)
	}
}

func (s *seat) press(name string) {
	if code, ok := named[name]; ok {
		s.Tell(tea.KeyPressMsg{Code: code})
		return
	}
	s.Tell(tea.KeyPressMsg{Code: []rune(name)[0], Text: name})
}

func (s *seat) types(text string) {
	for _, r := range text {
		s.press(string(r))
	}
}

func (s *seat) text() string { return strings.Join(s.Screen(), "\n") }

func (s *seat) shows(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if !strings.Contains(s.text(), text) {
			s.t.Errorf("the screen does not have %q:\n%s", text, s.text())
		}
	}
}

func (s *seat) lacks(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if strings.Contains(s.text(), text) {
			s.t.Errorf("the screen has %q:\n%s", text, s.text())
		}
	}
}

// votes returns the gateway's votes, whose number must be want.
func (s *seat) votes(want int) []*palyrav1.DecideApprovalRequest {
	s.t.Helper()
	if got := len(s.w.Gateway.Votes); got != want {
		s.t.Fatalf("%d votes, want %d\n%s", got, want, s.text())
	}
	return s.w.Gateway.Votes
}

// numbered returns an approval with its own id; larger numbers are newer.
func numbered(n int, what string) *palyrav1.Approval {
	v := clitest.SomeApproval()
	v.ApprovalId = fmt.Sprintf("01APPR0VA%017d", n)
	v.Prompt.Summary, v.Prompt.Title = what, what
	v.CallDigest = canonical.Digest([]byte(what))
	return v
}

func TestAllowOnce(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	v := clitest.SomeApproval()
	s.asks(v)
	s.shows("1 call waiting", "pending · high · asked 48s ago · 9m12s left")
	s.keys("a")
	s.shows("allow this call once?", "y allow", "The agent wants to run a program")
	s.press("y") // immediately after the prompt appeared
	s.votes(0)
	s.shows("too soon")
	s.keys("a", "enter", "o")
	s.votes(0)
	s.keys("y")
	vote := s.votes(1)[0]
	if !vote.GetAllow() || vote.GetScope() != palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE || vote.GetSurface() != "tui" || vote.GetShownDigest() != v.GetCallDigest() {
		t.Errorf("the vote is %v", vote)
	}
	s.shows("your answer counts: allowed", "no answer: it is allowed already")
	s.keys("y", "a", "y")
	s.votes(1)
}

func TestDeny(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.asks(clitest.SomeApproval())
	s.keys("d", "enter")
	s.shows("a denial requires a reason")
	s.types("not qn a Friday")
	s.Tell(tea.KeyPressMsg{Code: 'u', Mod: tea.ModCtrl})
	s.Tell(tea.PasteMsg{Content: "not on\na Friday"})
	s.keys("enter")
	if vote := s.votes(1)[0]; vote.GetAllow() || vote.GetReason() != "not on a Friday" {
		t.Errorf("the vote is %v", vote)
	}
	s.keys("esc", "d", "esc")
	s.votes(1)
}

// TestScopes: each offered answer sends a vote with its scope and matcher, after its coverage
// was displayed.
func TestScopes(t *testing.T) {
	t.Parallel()
	for down, want := range map[int]string{1: "session exact", 4: "timeboxed subject"} {
		s := newScreen(t, false)
		s.asks(clitest.SomeApproval())
		s.keys("s")
		for range down {
			s.keys("j")
		}
		s.shows("> " + want)
		s.keys("enter")
		if strings.HasPrefix(want, "timeboxed") {
			s.shows("for how long")
			s.types(" x3")
			s.keys("enter")
			s.shows("allow this call, and after it any git command", "for up to 30m00s, 3 times?")
		}
		s.keys("c")
		if typed := strings.ReplaceAll(s.text(), "\n    ", ""); !strings.Contains(typed, "--allow "+strings.Fields(want)[0]) || !strings.Contains(typed, "--match "+strings.Fields(want)[1]) {
			t.Errorf("the command is %s", typed)
		}
		s.keys("esc", "y")
		vote := s.votes(1)[0]
		if got := printer.Enum(vote.GetScope()) + " " + printer.Enum(vote.GetMatch()); got != want {
			t.Errorf("the vote is %s, want %s", got, want)
		}
		if down == 4 && (vote.GetUses() != 3 || vote.GetTtl().AsDuration() != 30*time.Minute) {
			t.Errorf("the vote is %v", vote)
		}
	}
}

// TestStableOrder: a new or decided approval does not move the line under the cursor.
func TestStableOrder(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	for n := 10; n < 40; n++ {
		s.asks(numbered(n, fmt.Sprint("call ", n)))
	}
	s.keys("pgdown", "j")
	under := func() (at int, line string) {
		for i, l := range s.Screen() {
			if strings.HasPrefix(l, "> ") {
				return i, l
			}
		}
		t.Fatalf("no cursor:\n%s", s.text())
		return 0, ""
	}
	at, line := under()
	same := func(when string) {
		t.Helper()
		if nowAt, now := under(); nowAt != at || now != line {
			t.Errorf("%s, %q in line %d became %q in line %d", when, line, at, now, nowAt)
		}
	}
	for _, n := range []int{5, 41, 9} {
		s.asks(numbered(n, fmt.Sprint("call ", n)))
		same("after a new one")
	}
	for _, n := range []int{10, 19, 35} {
		gone := numbered(n, fmt.Sprint("call ", n))
		gone.State, gone.Version = palyrav1.ApprovalState_APPROVAL_STATE_DENIED, 2
		s.Tell(tui.Changed(gone))
		same("after an answer")
	}
	s.keys("x")
	if _, now := under(); now != line {
		t.Errorf("after tidying up, the cursor is at %q", now)
	}
	s.keys("p")
	s.asks(numbered(50, "call fifty"))
	s.keys("end")
	s.shows("PAUSED, 1 changed")
	s.lacks("call fifty")
	s.keys("p", "end")
	s.shows("> git commit -m one · call fifty")
}

// TestListFromTheTop: the screen lists as many approvals as fit, in any order of arrival from
// the stream and the list. The cursor starts at the first.
func TestListFromTheTop(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(s *seat){
		"the list alone":           func(s *seat) { s.Tell(tui.Opened()) },
		"the newest by the stream": func(s *seat) { s.Tell(tui.Changed(numbered(7, "call 7"))); s.Tell(tui.Opened()) },
		"all by the stream, newest": func(s *seat) {
			for n := 7; n > 0; n-- {
				s.Tell(tui.Changed(numbered(n, fmt.Sprint("call ", n))))
			}
			s.Tell(tui.Opened())
		},
		"a larger terminal at the end": func(s *seat) {
			s.Tell(tea.WindowSizeMsg{Width: 80, Height: 24})
			s.Tell(tui.Opened())
			s.keys("end")
			for n := 8; n < 13; n++ {
				s.asks(numbered(n, fmt.Sprint("call ", n)))
			}
			s.keys("end")
			s.Tell(tea.WindowSizeMsg{Width: 80, Height: 40})
			s.keys("home")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScreen(t, false)
			for n := 1; n <= 7; n++ {
				v := numbered(n, fmt.Sprint("call ", n))
				s.w.Gateway.Approvals[v.GetApprovalId()] = v
			}
			begin(s)
			for n := 1; n <= 7; n++ {
				s.shows(fmt.Sprint("call ", n))
			}
			if line := s.Screen()[1]; !strings.HasPrefix(line, "> ") || !strings.Contains(line, "call 1") {
				t.Errorf("the cursor is not at the first request:\n%s", s.text())
			}
		})
	}
}

// TestOwnApproval: a call that runs with the caller's own vote is displayed as a success, and
// another user's vote as a change.
func TestOwnApproval(t *testing.T) {
	t.Parallel()
	become := func(s *seat, state palyrav1.ApprovalState, voter string) {
		v := proto.CloneOf(s.w.Gateway.Approvals[clitest.SomeApproval().GetApprovalId()])
		v.State, v.Version = state, v.GetVersion()+1
		if voter != "" {
			v.Votes = append(v.Votes, &palyrav1.ApprovalVote{User: voter, Surface: "console", At: timestamppb.New(clitest.Now)})
		}
		s.asks(v)
	}
	s := newScreen(t, false)
	s.asks(clitest.SomeApproval())
	s.keys("a", "y")
	s.shows("✓ your answer counts: allowed")
	become(s, palyrav1.ApprovalState_APPROVAL_STATE_CONSUMED, "")
	s.shows("✓ your answer counts: the call was let through")
	s.lacks("! ")

	s = newScreen(t, false)
	s.asks(clitest.SomeApproval())
	s.keys("a", "y")
	become(s, palyrav1.ApprovalState_APPROVAL_STATE_REVOKED, "user:eve")
	s.shows("! user:eve decided it (console): revoked")
	s.lacks("✓")

	s = newScreen(t, false)
	s.asks(clitest.SomeApproval())
	s.keys("enter")
	become(s, palyrav1.ApprovalState_APPROVAL_STATE_CONSUMED, "user:eve")
	s.shows("! user:eve decided it (console): consumed")
	s.lacks("✓")
}

// TestHelpListsEveryKey: every key that has an effect on some screen is in the help, and every
// key in the help has an effect.
func TestHelpListsEveryKey(t *testing.T) {
	t.Parallel()
	screens := map[string][]string{"list": nil, "end of the list": {"end"}, "detail": {"enter"}, "end of the detail": {"enter", "end"}, "grants": {"g"}, "confirm": {"a"}, "choose": {"s"}, "last choice": {"s", "j"}, "copy": {"c"}, "a filter": {"/", "b"}, "a reason": {"d", "b"}, "a reason to revoke": {"g", "r", "b"}}
	names := map[string]string{"pgdown": "PgDn", "pgup": "PgUp"}
	helped, acted := tui.Helped(), map[string]bool{}
	for screen, way := range screens {
		fresh := func() *seat {
			s := newScreen(t, false)
			s.w.Populate()
			for n := 1; n <= 15; n++ {
				v := numbered(n, fmt.Sprint("call ", n))
				v.Prompt.Diff = strings.Repeat("+ line\n", 40)
				s.w.Gateway.Approvals[v.GetApprovalId()] = v
			}
			s.Tell(tui.Opened())
			answered := numbered(2, "call 2")
			answered.State, answered.Version = palyrav1.ApprovalState_APPROVAL_STATE_DENIED, 2
			s.Tell(tui.Changed(answered))
			s.keys(way...)
			s.now = s.now.Add(time.Second)
			return s
		}
		s := fresh()
		for _, k := range everyKey() {
			if k.Text != "" && k.Text != " " && strings.Contains(screen, "a ") {
				continue // the key is text input
			}
			if !s.Acts(k) {
				continue
			}
			name := k.String()
			if letter, ok := strings.CutPrefix(name, "ctrl+"); ok {
				name = "Ctrl-" + strings.ToUpper(letter)
			} else if names[name] != "" {
				name = names[name]
			} else if len(name) > 1 {
				name = strings.ToUpper(name[:1]) + name[1:]
			}
			if acted[name] = true; !slices.Contains(helped, name) {
				t.Errorf("%s: %s acts, and ? does not list it", screen, name)
			}
			s = fresh()
		}
	}
	for _, name := range helped {
		if !acted[name] {
			t.Errorf("? lists %s, which does nothing", name)
		}
	}
}

// everyKey returns the keys that a terminal sends.
func everyKey() (list []tea.KeyPressMsg) {
	for r := '!'; r <= '~'; r++ {
		list = append(list, tea.KeyPressMsg{Code: r, Text: string(r)})
	}
	for r := 'a'; r <= 'z'; r++ {
		list = append(list, tea.KeyPressMsg{Code: r, Mod: tea.ModCtrl})
	}
	for _, code := range []rune{tea.KeyEnter, tea.KeyEscape, tea.KeyTab, tea.KeyBackspace, tea.KeyDelete, tea.KeyUp, tea.KeyDown, tea.KeyLeft, tea.KeyRight, tea.KeyPgUp, tea.KeyPgDown, tea.KeyHome, tea.KeyEnd, tea.KeyInsert, tea.KeyF1} {
		list = append(list, tea.KeyPressMsg{Code: code})
	}
	return append(list, tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
}

// TestConflicts: another user's change of the displayed approval is reported, and the pending
// answer is discarded.
func TestConflicts(t *testing.T) {
	t.Parallel()
	change := func(f func(v *palyrav1.Approval)) *palyrav1.Approval {
		v := proto.CloneOf(clitest.SomeApproval())
		v.Version = 2
		f(v)
		return v
	}
	for name, c := range map[string]struct {
		after *palyrav1.Approval
		says  string
		lost  bool
	}{
		"decided": {change(func(v *palyrav1.Approval) {
			v.State = palyrav1.ApprovalState_APPROVAL_STATE_DENIED
			v.Votes = append(v.Votes, &palyrav1.ApprovalVote{User: "user:eve", Surface: "console", At: timestamppb.New(clitest.Now)})
		}), "! user:eve decided it (console): denied", true},
		"expired": {change(func(v *palyrav1.Approval) { v.State = palyrav1.ApprovalState_APPROVAL_STATE_EXPIRED }), "! it is expired", true},
		"another call": {change(func(v *palyrav1.Approval) {
			v.CallDigest = canonical.Digest([]byte("other"))
		}), "! the call was changed while you looked", true},
		"another vote": {change(func(v *palyrav1.Approval) {
			v.Votes = append(v.Votes, &palyrav1.ApprovalVote{User: "user:eve", Allow: true, At: timestamppb.New(clitest.Now)})
		}), "! user:eve voted while you looked", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScreen(t, false)
			s.asks(clitest.SomeApproval())
			s.keys("a")
			s.shows("allow this call once?")
			s.now = s.now.Add(time.Second)
			s.asks(c.after)
			s.shows(c.says)
			s.press("y") // the displayed content is new
			s.votes(0)
			if c.lost {
				s.lacks("allow this call once?")
				s.keys("y")
				s.votes(0)
			} else {
				s.keys("y")
				s.votes(1)
			}
		})
	}
}

// TestLateVote: a refused vote is reported, and the current state is displayed.
func TestLateVote(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.asks(clitest.SomeApproval())
	s.keys("a")
	s.w.Decided() // the screen does not have this yet
	s.keys("y")
	s.shows("! bob denied it before [APPROVAL_CONFLICT]", "no answer: it is denied already")
}

// TestMayNotAnswer: an answer that the gateway would refuse is not offered, and the reason is
// displayed.
func TestMayNotAnswer(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	v := clitest.SomeApproval()
	v.You = &palyrav1.ApprovalStanding{Own: true, Message: "it is your own call", Remedy: "Another user has to answer."}
	s.asks(v)
	s.keys("enter")
	s.shows("no answer: it is your own call")
	for _, key := range []string{"a", "s", "d"} {
		s.keys(key)
		s.shows("it is your own call")
		s.lacks("y allow", "deny, because", "timeboxed exact:")
	}
	s.votes(0)
}

func TestFilter(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.asks(clitest.SomeApproval())
	denied := numbered(1, "an older call")
	denied.State = palyrav1.ApprovalState_APPROVAL_STATE_DENIED
	s.w.Gateway.Approvals[denied.GetApprovalId()] = denied
	s.keys("/")
	s.types("state:denied")
	s.keys("enter")
	s.shows("an older call")
	s.lacks("run a program")
	s.asks(clitest.SomeApproval())
	s.lacks("run a program")
	s.keys("/")
	s.types(" by:agent:claude -older")
	s.keys("enter")
	s.shows("no call waits that the filter admits")
	s.keys("/")
	s.types(" state:none")
	s.keys("enter")
	s.shows("want one of")
	s.keys("esc", "esc")
	s.shows("run a program")
}

func TestGrants(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.w.Populate()
	s.keys("g")
	s.shows("palyra  grants", "> ", " left · by ")
	s.keys("r", "enter")
	s.shows("revoked: 01GRANT")
	s.keys("esc")
	s.shows("waiting")
}

// TestLiveOrStale: the screen displays whether its content is current.
func TestLiveOrStale(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.shows("○ stale")
	s.Tell(tui.Opened())
	s.shows("● live")
	s.now = s.now.Add(time.Minute)
	s.shows("● live") // an older gateway sends no heartbeats
	s.Tell(tui.Beat())
	s.now = s.now.Add(4 * time.Second)
	s.shows("● live")
	s.now = s.now.Add(time.Second)
	s.shows("○ stale 5s")
	s.Tell(tui.Beat())
	s.Tell(tui.Lost())
	s.shows("○ stale", "trying again")
}

func TestSize(t *testing.T) {
	t.Parallel()
	s := newScreen(t, false)
	s.asks(clitest.SomeApproval())
	s.Tell(tea.WindowSizeMsg{Width: 79, Height: 24})
	s.shows("79 columns and 24 lines", "80 and 24")
	s.keys("a", "y")
	s.votes(0)
	s.Tell(tea.WindowSizeMsg{Width: 80, Height: 24})
	s.keys("enter", "?")
	s.shows("PgUp", "any key goes back")
	s.keys("?")
	for _, size := range [][2]int{{80, 24}, {81, 25}, {200, 60}} {
		s.Tell(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		fits(t, s.Screen(), size[0], size[1])
	}
}

func fits(t *testing.T, lines []string, width, height int) {
	t.Helper()
	if len(lines) != height {
		t.Errorf("%d lines, want %d", len(lines), height)
	}
	for _, l := range lines {
		if lipgloss.Width(l) > width {
			t.Errorf("%q is wider than %d", l, width)
		}
	}
}

// TestHostile: for any text of a model, the screen contains only its own lines and styles, and
// no other control characters. The whole text can be scrolled through.
func TestHostile(t *testing.T) {
	t.Parallel()
	for _, colour := range []bool{false, true} {
		s := newScreen(t, colour)
		v := clitest.HostileApproval()
		v.Prompt.Lead = strings.Repeat(clitest.Hostile, 2000)
		s.asks(v)
		var all strings.Builder
		look := func() {
			t.Helper()
			lines := s.Screen()
			fits(t, lines, 80, 24)
			text := plain(strings.Join(lines, "\n"))
			if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && clitest.Unsafe(r) }) {
				t.Fatalf("the screen has %q", text)
			}
			all.WriteString(text)
		}
		look()
		s.keys("enter")
		for range 20000 {
			before := s.text()
			s.keys("pgdown")
			if look(); s.text() == before {
				break
			}
		}
		if !strings.Contains(all.String(), "THE-END") {
			t.Error("the end of the arguments cannot be read")
		}
		s.keys("a")
		look()
		s.keys("c")
		look()
		s.Tell(tui.Said(clitest.Hostile))
		look()
		s.keys("esc", "esc")
		s.Tell(tea.PasteMsg{Content: clitest.Hostile})
		s.keys("d")
		s.Tell(tea.PasteMsg{Content: clitest.Hostile})
		look()
	}
}

// plain returns a text without the printer's styles.
func plain(text string) string {
	for _, style := range []string{"\x1b[m", "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[7m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1;31m", "\x1b[1;33m"} {
		text = strings.ReplaceAll(text, style, "")
	}
	return text
}

// FuzzFold: folding keeps the whole text, and no line is wider than the screen.
func FuzzFold(f *testing.F) {
	f.Add("label         a long value\n  \x1b[32m+green\x1b[m\n", 20)
	f.Add("漢字漢字漢字漢字漢字漢字", 9)
	f.Fuzz(func(t *testing.T, text string, width int) {
		width = 20 + min(max(width, 0), 200)
		text = printer.VisibleText(text)
		var whole strings.Builder
		for _, l := range tui.Fold(text, width) {
			if lipgloss.Width(l) > width {
				t.Errorf("%q is wider than %d", l, width)
			}
			whole.WriteString(l)
		}
		bare := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if got, want := bare(whole.String()), bare(text); got != want {
			t.Errorf("%q became %q", want, got)
		}
	})
}

// TestNoTerminal: without a terminal, the error names the command to use instead.
func TestNoTerminal(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	r := w.Run("tui")
	w.Want(r, 2)
	if !strings.Contains(r.Err, "palyra approvals list") {
		t.Error(r.Err)
	}
}
