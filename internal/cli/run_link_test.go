package cli

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

// withoutNotes drops what is said of lost connections.
func withoutNotes(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "connection lost; trying again in ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// TestRunResumes breaks the connection after every event, in every form of the
// output: nothing is missing, and nothing is there twice. The control is the
// run without a break.
func TestRunResumes(t *testing.T) {
	forms := map[string]struct {
		s    Streams
		args []string
	}{
		"ndjson": {Streams{}, []string{"-o", "ndjson"}},
		"piped":  {Streams{}, nil},
		"live":   {Streams{OutTerminal: true, ErrTerminal: true, Width: 200}, []string{"--no-color"}},
	}
	const events = 18
	for name, form := range forms {
		play := func(cuts ...int) (result, []int64) {
			w := newWorld(t)
			w.gateway.runs.script = pair
			w.gateway.runs.cut = func(sent int) bool { return slices.Contains(cuts, sent) }
			r := w.with(form.s, append([]string{"run", "x"}, form.args...)...)
			w.want(r, 0)
			return r, w.gateway.runs.resumed
		}
		whole, _ := play()
		same := func(r result, cuts []int) {
			out, told := r.out, withoutNotes(r.err)
			if form.s.ErrTerminal { // the note ends a line of text that was begun
				out = strings.ReplaceAll(strings.ReplaceAll(out, "file\nand", "file and"), "greets;\ntwo", "greets; two")
			}
			if out != whole.out || told != whole.err {
				t.Errorf("%s, cut after %v:\nstdout %q\nwant   %q\nstderr %q\nwant   %q", name, cuts, out, whole.out, told, whole.err)
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

// TestRunStartIsLost: a connection that breaks before the gateway has said
// anything is tried again, with the same key: there is one run.
func TestRunStartIsLost(t *testing.T) {
	for _, args := range [][]string{{"run", "x"}, {"run", "x", "-o", "ndjson"}, {"run", "x", "--detach"}} {
		w := newWorld(t)
		w.gateway.runs.script = pair
		w.gateway.runs.deaf = 2
		r := w.run(args...)
		w.want(r, 0)
		started := w.gateway.runs.started
		if len(started) != 3 || started[0].GetIdempotencyKey() == "" || started[0].GetIdempotencyKey() != started[2].GetIdempotencyKey() {
			t.Errorf("%v: started with %v", args, started)
		}
		if n := strings.Count(r.err, "connection lost; trying again in "); n != 2 || r.out == "" {
			t.Errorf("%v: %d tries\nstdout %s\nstderr %s", args, n, r.out, r.err)
		}
	}
}

// TestRunWithoutAGateway: where no connection can be made, and where the
// gateway refuses the certificate, nothing is tried again.
func TestRunWithoutAGateway(t *testing.T) {
	for _, args := range [][]string{{"run", "x"}, {"run", "x", "--detach"}, {"runs", "watch", fakeRunID}} {
		away := newWorld(t)
		away.env["PALYRA_ADDRESS"] = closedAddress
		expired := newWorld(t)
		expired.writeBundle(time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))
		for _, w := range []*world{away, expired} {
			r := w.run(args...)
			w.want(r, reason.Lookup(reason.NotConnected).Exit)
			if strings.Contains(r.err, "connection lost") || len(w.gateway.runs.started) > 0 {
				t.Errorf("%v: %s", args, r.err)
			}
		}
	}
}

// TestRunEventsTwice: a gateway that sends events again does not make them show
// twice.
func TestRunEventsTwice(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = pair
	w.gateway.runs.repeats = true
	w.gateway.runs.cut = func(sent int) bool { return sent == 9 }
	r := w.run("run", "x")
	w.want(r, 0)
	if strings.Count(r.err, "I look at the file") != 1 || strings.Count(r.err, "[1] allowed") != 1 {
		t.Error(r.err)
	}
}

// TestRunGivesUp: a gateway that stays away ends the command with the way to
// come back to the run.
func TestRunGivesUp(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = func(r *fakeRun) { <-r.ctx.Done() }
	watch := newWatcher("started")
	w.gateway.runs.cut = func(int) bool {
		<-watch.seen
		go w.server.Close()
		return true
	}
	r := w.with(Streams{Out: watch}, "run", "x", "-o", "ndjson")
	w.want(r, 6)
	if n := strings.Count(r.err, "connection lost; trying again in "); n != runTries {
		t.Errorf("%d tries, want %d: %s", n, runTries, r.err)
	}
	if !strings.Contains(r.err, "The run goes on without this command: `palyra runs watch "+fakeRunID+" --after 1048583`") {
		t.Error(r.err)
	}
}

// TestRunStartGivesUp: where nothing is known of the run, the command says that
// there may be one.
func TestRunStartGivesUp(t *testing.T) {
	for _, args := range [][]string{{"run", "x"}, {"run", "x", "--detach"}} {
		w := newWorld(t)
		w.gateway.runs.deaf = 2 * runTries
		r := w.run(args...)
		w.want(r, reason.Lookup(reason.NotConnected).Exit)
		if n := strings.Count(r.err, "connection lost; trying again in "); n != runTries || !strings.Contains(r.err, "The run may have been started; look with `palyra runs list`.") {
			t.Errorf("%v: %d tries: %s", args, n, r.err)
		}
	}
}

// TestRunVoteAcrossALoss: an answer that was given while the connection was
// away reaches the gateway once it is back.
func TestRunVoteAcrossALoss(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = asking
	w.gateway.runs.cut = func(sent int) bool { return sent == 7 } // after the question
	watch := newWatcher("answer>")
	s, keyboard := terminal(t, watch)
	go func() { <-watch.seen; _, _ = keyboard.Write([]byte("o\n")) }()
	r := w.with(s, "--no-color", "run", "x")
	w.want(r, 0)
	allowed := slices.ContainsFunc(w.gateway.votes, func(v *palyrav1.DecideApprovalRequest) bool { return v.GetAllow() })
	if !allowed || !strings.Contains(r.out, "Done.") || len(w.gateway.runs.resumed) != 1 {
		t.Errorf("%v, resumed %v\n%s", w.gateway.votes, w.gateway.runs.resumed, r.err)
	}
}
