//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"palyra/internal/core/canonical"
	"palyra/internal/core/must"
	"palyra/test/process"
)

// screen is `palyra tui` in a terminal of 80 by 24: a tmux pane, which renders what a terminal
// would.
type screen struct {
	c      *client
	socket string
}

// startScreen runs palyra tui below a line of shell output, so that a test can check that the
// former screen is restored.
func startScreen(c *client) *screen {
	t := c.g.T
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "tui-"))(t) // a path that is short enough for a socket
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &screen{c, filepath.Join(dir, "s")}
	program := c.command("tui")
	cmd := exec.Command("tmux", "-f", os.DevNull, "-S", s.socket,
		"set-option", "-g", "set-clipboard", "on", ";", "set-option", "-g", "allow-rename", "on", ";",
		"new-session", "-d", "-x", "80", "-y", "24",
		"echo THE SHELL; "+program.Path+" tui 2>"+filepath.Join(dir, "err")+`; echo "ended with $?"; exec cat`)
	cmd.Env = append(program.Env, "TERM=xterm-256color", "SHELL=/bin/sh")
	process.Finish(t, cmd).Want(t, 0)
	t.Cleanup(func() {
		_ = exec.Command("tmux", "-S", s.socket, "kill-server").Run()
		if text, err := os.ReadFile(filepath.Join(dir, "err")); err == nil && t.Failed() {
			t.Logf("palyra tui wrote: %s", text)
		}
	})
	return s
}

// tmux runs a tmux command and returns its output.
func (s *screen) tmux(args ...string) string {
	s.c.g.T.Helper()
	r := process.Finish(s.c.g.T, exec.Command("tmux", append([]string{"-S", s.socket}, args...)...))
	r.Want(s.c.g.T, 0)
	return r.Out
}

func (s *screen) text() string { return s.tmux("capture-pane", "-p") }

// keys types keys by their tmux names.
func (s *screen) keys(names ...string) { s.tmux(append([]string{"send-keys", "--"}, names...)...) }

// types types a literal text.
func (s *screen) types(text string) { s.tmux("send-keys", "-l", "--", text) }

// shows waits until the screen contains all of the texts.
func (s *screen) shows(texts ...string) {
	s.c.g.T.Helper()
	must.Eventually(s.c.g.T, "the screen has "+strings.Join(texts, ", "), func() (bool, string) {
		now := s.text()
		for _, text := range texts {
			if !strings.Contains(now, text) {
				return false, now
			}
		}
		return true, now
	})
}

// until presses a key repeatedly until the screen contains a text, because the screen ignores
// keys that arrive before the request was readable.
func (s *screen) until(key, text string) {
	s.c.g.T.Helper()
	must.Eventually(s.c.g.T, "after "+key+" the screen has "+text, func() (bool, string) {
		now := s.text()
		if !strings.Contains(now, text) {
			s.keys(key)
			return false, now
		}
		return true, now
	})
}

// TestScreen answers calls in a terminal: approval, denial, a grant and its revocation, another
// member who answers first, and a restarted gateway.
func TestScreen(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	c := g.local()
	s := startScreen(c)
	s.shows("● live", "no call waits")
	write := func(name, content string) *pending {
		return c.begin("call", "fs.write", "path="+name, "content="+content, "mode=overwrite")
	}

	step := func(name string, test func(*testing.T)) {
		if t.Failed() {
			t.FailNow() // the next step expects another screen
		}
		g.sub(name, test)
	}
	step("allow", func(t *testing.T) {
		call := write("allow.txt", "new")
		asked := call.asked()
		s.shows("> default:allow.txt · Create \"allow.txt\"", "pending · high", "left · user:local")
		s.keys("Enter")
		s.shows("digest        "+asked.Digest[:20], "a allow once", "still needed: 0 of 1")
		s.until("j", `"content": "new"`) // the full arguments
		s.until("a", "y allow")
		s.keys("Enter", "a", "Space") // none of these keys approves
		if got := g.Read("allow.txt"); got != "" || c.approval(asked.ID).State != "pending" {
			t.Fatalf("a single key decided: the file has %q", got)
		}
		s.until("y", "no answer: it is")
		call.wait().Want(t, 0)
		if got := g.Read("allow.txt"); got != "new" {
			t.Errorf("the file has %q", got)
		}
		votes := c.approval(asked.ID).Votes
		if len(votes) != 1 || votes[0].Surface != "tui" || !votes[0].Allow {
			t.Errorf("votes %+v", votes)
		}
		s.shows("it is consumed already")
		s.keys("Escape")
		s.shows("j k move")
		s.keys("x")
	})

	step("deny", func(t *testing.T) {
		call := write("deny.txt", "new")
		call.asked()
		s.shows("> default:deny.txt")
		s.keys("d")
		s.shows("deny, because:")
		s.keys("Enter")
		s.shows("a denial requires a reason")
		s.types("quiet hours, ask on Monday")
		s.until("Enter", "no answer: it is denied already")
		call.wait().Want(t, 4, "quiet hours, ask on Monday")
		s.keys("Escape")
		s.shows("j k move")
	})

	step("grant", func(t *testing.T) {
		call := write("grant.txt", "new")
		call.asked()
		s.shows("Create \"grant.txt\"")
		s.keys("G", "s")
		s.shows("session exact:", "timeboxed tool:")
		s.keys("j")
		s.shows("> session exact:")
		s.keys("Enter")
		s.shows("allow this call, and after it this very call again", "y allow")
		s.until("y", "no answer: it is")
		call.wait().Want(t, 0)
		must.Do(t, os.Remove(filepath.Join(g.Workspace, "grant.txt")))
		write("grant.txt", "new").wait().Want(t, 0)
		s.keys("g")
		s.shows("palyra  grants", "session exact · user:local · used 1")
		s.keys("r")
		s.shows("take back")
		s.until("Enter", "no grant is live")
		must.Do(t, os.Remove(filepath.Join(g.Workspace, "grant.txt")))
		again := write("grant.txt", "new")
		c.deny(again.asked()).Want(t, 0)
		again.wait().Want(t, 4)
		s.keys("Escape")
		s.shows("no answer: it is")
		s.keys("Escape")
		s.shows("j k move")
	})

	step("conflict", func(t *testing.T) {
		call := write("conflict.txt", "new")
		asked := call.asked()
		s.shows("Create \"conflict.txt\"")
		s.keys("G", "a")
		s.shows("allow this call once?")
		c.deny(asked).Want(t, 0)
		call.wait().Want(t, 4)
		s.shows("! user:local decided it (cli): denied", "no answer: it is denied already")
		s.keys("y", "Enter")
		s.shows("no answer: it is denied already")
		if votes := c.approval(asked.ID).Votes; len(votes) != 1 {
			t.Errorf("votes %+v", votes)
		}
		s.keys("Escape")
		s.shows("j k move")
	})

	step("filter", func(*testing.T) {
		s.keys("/")
		s.shows("filter:")
		s.types("state:denied -deny.txt")
		s.keys("Enter")
		s.shows("filter state:denied -deny.txt", "conflict.txt")
		if now := s.text(); strings.Contains(now, "\"deny.txt\"") || strings.Contains(now, "allow.txt") {
			g.T.Errorf("the filter let through what it should not:\n%s", now)
		}
		s.keys("/", "C-u")
		s.types("state:never")
		s.keys("Enter")
		s.shows("want one of")
		s.keys("Escape")
		s.shows("/ change")
		s.keys("Escape")
		s.shows("no call waits")
	})

	step("restart", func(t *testing.T) {
		text := string(must.Get(os.ReadFile(g.Config))(t))
		g.write(g.Config, strings.Replace(text, "127.0.0.1:0", g.address(), 1))
		call := write("before.txt", "new")
		call.asked()
		s.shows("before.txt")
		g.Stop()
		call.wait()
		s.shows("○ stale")
		g.Start()
		s.shows("● live", "before.txt")
		after := write("after.txt", "new")
		after.asked()
		s.shows("after.txt")
		s.keys("G", "a")
		s.shows("Create \"after.txt\"", "allow this call once?")
		s.until("y", "no answer: it is")
		after.wait().Want(t, 0)
		s.keys("Escape")
		s.shows("j k move")
	})

	step("size", func(*testing.T) {
		s.tmux("resize-window", "-x", "60", "-y", "20")
		s.shows("This terminal has 60 columns and 20 lines")
		s.keys("a", "d") // a request outside the view cannot be answered
		s.shows("The key d did nothing.")
		s.tmux("resize-window", "-x", "80", "-y", "24")
		s.shows("j k move")
		s.tmux("resize-window", "-x", "120", "-y", "40")
		s.shows(strings.Repeat("─", 120))
	})

	step("end", func(*testing.T) {
		s.keys("q")
		s.shows("THE SHELL", "ended with 0")
	})
}

// hostile is a text that manipulates a terminal: it clears the screen, sets the window title
// and the clipboard, reverses text and hides.
const hostile = "\x1b[2J\x1b[1;1HALLOWED\x1b]2;owned\x07\x1b]52;c;b3duZWQ=\x07\u202egnp.exe\u2066\u200b\u200e"

// TestScreenHostile: text from a model reaches the screen as plain text, at any length.
// Control: the same raw bytes manipulate a terminal.
func TestScreenHostile(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	c := g.local()
	large := hostile + strings.Repeat("0123456789abcdef", (1<<20-4096)/16) + hostile + "THE-END"
	input := string(must.Get(canonical.Marshal(map[string]any{"path": "h.txt", "content": large, "mode": "overwrite"}))(t))
	call := c.begin("call", "fs.write", "--input", "@"+g.file("../input.json", input))
	asked := call.asked()
	s := startScreen(c)
	s.shows("Create \"h.txt\"")
	s.keys("Enter")
	s.shows("digest        " + asked.Digest[:20])
	s.keys("G")
	s.until("k", "THE-END")
	s.keys("Home")
	s.until("j", `\u001b[2J`)
	s.keys("j", "j", "j", "j")
	must.Eventually(t, "what turns a line around is written out", func() (bool, string) {
		now := s.text()
		return strings.Contains(strings.ReplaceAll(now, "\n    ", ""), `\u202egnp.exe`), now
	})
	shown := s.text()
	if i := strings.IndexFunc(shown, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%q reached the screen:\n%q", shown[i:i+4], shown)
	}
	acted := func() (buffers, title string) {
		return s.tmux("list-buffers"), s.tmux("display-message", "-p", "#{pane_title}")
	}
	if buffers, title := acted(); buffers != "" || strings.Contains(title, "owned") {
		t.Errorf("it acted on the terminal: clipboard %q, title %q", buffers, title)
	}
	s.until("d", "deny, because:")
	s.types("no")
	s.until("Enter", "no answer: it is denied already")
	call.wait().Want(t, 4)
	s.keys("q")
	s.shows("ended with 0")

	raw := g.file("raw", hostile)
	s.tmux("respawn-pane", "-k", "cat "+raw+"; exec cat")
	s.shows("ALLOWED")
	must.Eventually(t, "the control acts", func() (bool, string) {
		buffers, title := acted()
		return buffers != "" && strings.Contains(title, "owned"), buffers + title
	})
}

// TestScreenPresence: if policy demands presence, the screen asks for the passphrase of the
// presence key, and a wrong passphrase decides nothing.
func TestScreenPresence(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("present.cedar", strings.ReplaceAll(somebodyThere, `"cli"`, `"tui"`))
	g.Start()
	c := g.local()
	c.types("correct horse\ncorrect horse\n", "key", "presence", "--passphrase").Want(t, 0)
	s := startScreen(c)
	call := c.begin("call", "fs.write", "path=p.txt", "content=new")
	asked := call.asked()
	s.shows("p.txt")
	s.keys("a")
	s.shows("y allow")
	s.until("y", "passphrase of the presence key")
	s.types("wrong horse")
	s.shows("(not shown)")
	if strings.Contains(s.text(), "horse") {
		t.Error("the passphrase was shown")
	}
	s.keys("Enter")
	s.shows("PRESENCE_NOT_PROVEN")
	if state := c.approval(asked.ID).State; state != "pending" {
		t.Errorf("after a wrong passphrase it is %s", state)
	}
	s.types("correct horse")
	s.keys("Enter")
	s.shows("no answer: it is")
	call.wait().Want(t, 0)
	votes := c.events("PAL-A102")
	last := string(votes[len(votes)-1].Payload)
	if !strings.Contains(last, `"present":true`) || !strings.Contains(last, `"surface":"tui"`) {
		t.Errorf("the vote is %s", last)
	}
}

// TestScreenEnds: a signal restores the terminal. Without a terminal, the error names the
// command to use instead.
func TestScreenEnds(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	c := g.local()
	c.run("tui").Want(t, 2, "palyra approvals list")
	for _, signal := range []string{"TERM", "INT"} {
		s := startScreen(c)
		s.shows("no call waits")
		shell := strings.TrimSpace(s.tmux("display-message", "-p", "#{pane_pid}"))
		r := process.Finish(t, exec.Command("ps", "-o", "pid=", "--ppid", shell))
		pid := must.Get(strconv.Atoi(strings.TrimSpace(r.Out)))(t)
		process.Finish(t, exec.Command("kill", "-"+signal, strconv.Itoa(pid))).Want(t, 0)
		s.shows("THE SHELL", "ended with 0")
		if mode := strings.TrimSpace(s.tmux("display-message", "-p", "#{alternate_on}#{cursor_flag}")); mode != "01" {
			t.Errorf("after SIG%s the terminal is in mode %s", signal, mode)
		}
	}
}
