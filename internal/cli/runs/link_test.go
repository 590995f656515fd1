package runs_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/runs"
	"palyra/internal/core/reason"
)

// withoutNotes removes the notes about lost connections.
func withoutNotes(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "connection lost; trying again in ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// TestRunResumes breaks the connection after every event, in every output format. Each event is
// printed exactly once. Control: the run without a break.
func TestRunResumes(t *testing.T) {
	t.Parallel()
	forms := map[string]struct {
		s    printer.Streams
		args []string
	}{
		"ndjson": {printer.Streams{}, []string{"-o", "ndjson"}},
		"piped":  {printer.Streams{}, nil},
		"live":   {printer.Streams{OutTerminal: true, ErrTerminal: true, Width: 200}, []string{"--no-color"}},
	}
	const events = 18
	for name, form := range forms {
		play := func(cuts ...int) (clitest.Result, []int64) {
			w := clitest.NewWorld(t)
			w.Gateway.Runs.Script = clitest.Pair
			w.Gateway.Runs.Cut = func(sent int) bool { return slices.Contains(cuts, sent) }
			r := w.With(form.s, append([]string{"run", "x"}, form.args...)...)
			w.Want(r, 0)
			return r, w.Gateway.Runs.Resumed
		}
		whole, _ := play()
		same := func(r clitest.Result, cuts []int) {
			out, told := r.Out, withoutNotes(r.Err)
			if form.s.ErrTerminal { // the note ends an unfinished line of text
				out = strings.ReplaceAll(strings.ReplaceAll(out, "file\nand", "file and"), "greets;\ntwo", "greets; two")
			}
			if out != whole.Out || told != whole.Err {
				t.Errorf("%s, cut after %v:\nstdout %q\nwant   %q\nstderr %q\nwant   %q", name, cuts, out, whole.Out, told, whole.Err)
			}
		}
		inside := 0
		for cut := 1; cut < events; cut++ {
			r, resumed := play(cut)
			same(r, []int{cut})
			// The last events may have been lost with the connection.
			if want := int64(cut)*(1<<20) + 7*int64(cut); len(resumed) > 1 || len(resumed) == 1 && resumed[0] > want {
				t.Errorf("cut after %d: resumed after %v, want %d", cut, resumed, want)
			}
			if len(resumed) == 1 && resumed[0] > 0 {
				inside++
			}
		}
		if inside == 0 {
			t.Errorf("%s: every run was begun again, and none resumed", name)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 4 {
			var cuts []int
			for n := 1; n < events; n++ {
				if rng.IntN(3) == 0 {
					cuts = append(cuts, n)
				}
			}
			r, _ := play(cuts...)
			same(r, cuts)
		}
	}
}

// TestRunStartIsLost: a start whose connection breaks before the first response is retried with
// the same key, so that there is one run.
func TestRunStartIsLost(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", "x"}, {"run", "x", "-o", "ndjson"}, {"run", "x", "--detach"}} {
		w := clitest.NewWorld(t)
		w.Gateway.Runs.Script = clitest.Pair
		w.Gateway.Runs.Deaf = 2
		r := w.Run(args...)
		w.Want(r, 0)
		started := w.Gateway.Runs.Started
		if len(started) != 3 || started[0].GetIdempotencyKey() == "" || started[0].GetIdempotencyKey() != started[2].GetIdempotencyKey() {
			t.Errorf("%v: started with %v", args, started)
		}
		if n := strings.Count(r.Err, "connection lost; trying again in "); n != 2 || r.Out == "" {
			t.Errorf("%v: %d tries\nstdout %s\nstderr %s", args, n, r.Out, r.Err)
		}
	}
}

// TestRunWithoutAGateway: a failed connection attempt, or a refused certificate, is not
// retried.
func TestRunWithoutAGateway(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", "x"}, {"run", "x", "--detach"}, {"runs", "watch", clitest.RunID}} {
		away := clitest.NewWorld(t)
		away.Env["PALYRA_ADDRESS"] = clitest.ClosedAddress
		expired := clitest.NewWorld(t)
		expired.WriteBundle(time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))
		for _, w := range []*clitest.World{away, expired} {
			r := w.Run(args...)
			w.Want(r, reason.Lookup(reason.NotConnected).Exit)
			if strings.Contains(r.Err, "connection lost") || len(w.Gateway.Runs.Started) > 0 {
				t.Errorf("%v: %s", args, r.Err)
			}
		}
	}
}

// TestRunEventsTwice: events that the gateway sends again are printed once.
func TestRunEventsTwice(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = clitest.Pair
	w.Gateway.Runs.Repeats = true
	w.Gateway.Runs.Cut = func(sent int) bool { return sent == 9 }
	r := w.Run("run", "x")
	w.Want(r, 0)
	if strings.Count(r.Err, "I look at the file") != 1 || strings.Count(r.Err, "[1] allowed") != 1 {
		t.Error(r.Err)
	}
}

// TestRunReconnectGivesUp: if the gateway stays unavailable, the command ends and prints the
// command that resumes the run.
func TestRunReconnectGivesUp(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = func(r *clitest.Run) { <-r.Ctx.Done() }
	watch := clitest.NewWatcher("started")
	w.Gateway.Runs.Cut = func(int) bool {
		<-watch.Seen
		go w.Server.Close()
		return true
	}
	r := w.With(printer.Streams{Out: watch}, "run", "x", "-o", "ndjson")
	w.Want(r, 6)
	if n := strings.Count(r.Err, "connection lost; trying again in "); n != runs.RunTries {
		t.Errorf("%d tries, want %d: %s", n, runs.RunTries, r.Err)
	}
	if !strings.Contains(r.Err, "The run continues without this command: `palyra runs watch "+clitest.RunID+" --after 1048583`") {
		t.Error(r.Err)
	}
}

// TestRunStartGivesUp: if the start's outcome is unknown, the command prints that the run may
// have been started.
func TestRunStartGivesUp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", "x"}, {"run", "x", "--detach"}} {
		w := clitest.NewWorld(t)
		w.Gateway.Runs.Deaf = 2 * runs.RunTries
		r := w.Run(args...)
		w.Want(r, reason.Lookup(reason.NotConnected).Exit)
		if n := strings.Count(r.Err, "connection lost; trying again in "); n != runs.RunTries || !strings.Contains(r.Err, "The run may have been started; look with `palyra runs list`.") {
			t.Errorf("%v: %d tries: %s", args, n, r.Err)
		}
	}
}

// TestRunVoteAcrossALoss: a vote that was typed while the connection was lost is sent after the
// reconnect.
func TestRunVoteAcrossALoss(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Runs.Script = asking
	w.Gateway.Runs.Cut = func(sent int) bool { return sent == 7 } // after the approval request
	watch := clitest.NewWatcher("answer>")
	s, keyboard := terminal(t, watch)
	go func() { <-watch.Seen; _, _ = keyboard.Write([]byte("o\n")) }()
	r := w.With(s, "--no-color", "run", "x")
	w.Want(r, 0)
	allowed := slices.ContainsFunc(w.Gateway.Votes, func(v *palyrav1.DecideApprovalRequest) bool { return v.GetAllow() })
	if !allowed || !strings.Contains(r.Out, "Done.") || len(w.Gateway.Runs.Resumed) != 1 {
		t.Errorf("%v, resumed %v\n%s", w.Gateway.Votes, w.Gateway.Runs.Resumed, r.Err)
	}
}
