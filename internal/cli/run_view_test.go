package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"charm.land/lipgloss/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

// TestRunViewHostile: nothing that a model, a tool or a provider wrote reaches
// a terminal as more than text, in every event that carries some.
func TestRunViewHostile(t *testing.T) {
	script := func(r *fakeRun) {
		r.delta(hostile)
		r.delta(hostile + "\n")
		r.add(&palyrav1.RunEvent{Event: &palyrav1.RunEvent_ModelRetry{ModelRetry: &palyrav1.ModelRetry{Attempt: 1, Message: hostile}}})
		r.turn(hostile, [3]string{"A", hostile, `{"x":"` + "\u202e" + `","y":[1]}`}, [3]string{"B", "t", hostile})
		r.propose("A", hostile)
		r.propose("B", "t")
		r.call("A", allowed())
		r.call("A", output("stdout", hostile+"\n"+hostile))
		r.call("A", output("stderr", "\xff\xfe\n"))
		failed := finished(hostile, "", "")
		failed.GetResult().Message, failed.GetResult().Remedy = hostile, hostile
		r.call("A", failed)
		denied := deniedFor(reason.PolicyDenied, hostile)
		denied.GetDecision().Remedy, denied.GetDecision().Determining[0].Reason = hostile, hostile
		r.call("B", denied)
		r.turn(hostile)
		r.finish(palyrav1.RunState_RUN_STATE_FAILED, reason.ModelUnavailable, hostile)
	}
	for name, s := range map[string]Streams{
		"live": {OutTerminal: true, ErrTerminal: true, Width: 80}, "captured": {ErrTerminal: true, Width: 80}, "piped": {},
	} {
		w := newWorld(t)
		w.gateway.runs.script = script
		texts := map[string]string{}
		r := w.with(s, "--no-color", "run", "x")
		texts["run"] = r.out + r.err
		r = w.with(s, "--no-color", "runs", "watch", fakeRunID)
		texts["watch"] = r.out + r.err
		r = w.with(s, "--no-color", "runs", "show", fakeRunID)
		texts["show"] = r.out + r.err
		r = w.with(s, "--no-color", "runs", "watch", fakeRunID, "-o", "ndjson")
		texts["ndjson"] = r.out + r.err
		for command, text := range texts {
			if i := strings.IndexFunc(text, unsafe); i >= 0 || !utf8.ValidString(text) {
				t.Errorf("%s %s has %q", name, command, text[max(i, 0):min(len(text), max(i, 0)+8)])
			}
			if command != "ndjson" && !strings.Contains(text, `\u{202e}gnp.exe`) {
				t.Errorf("%s %s does not show the text:\n%s", name, command, text)
			}
		}
	}
	if !strings.ContainsFunc(hostile, unsafe) {
		t.Error("the text is not hostile") // the control
	}
}

// TestRunViewLabels: each line of a call has its number, whatever the order.
func TestRunViewLabels(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = func(r *fakeRun) {
		r.turn("", [3]string{"A", "one", `{}`}, [3]string{"B", "two", `{}`}, [3]string{"C", "three", `{}`})
		for _, id := range []string{"C", "A", "B"} {
			r.propose(id, map[string]string{"A": "one", "B": "two", "C": "three"}[id])
			r.call(id, allowed())
		}
		for _, id := range []string{"B", "C", "A", "C", "B", "A"} {
			r.call(id, output("stdout", "from "+id+"\n"))
		}
		r.call("A", finished("failed", reason.FileNotFound, ""))
		r.turn("", [3]string{"A", "four", `{}`}) // a provider that counts anew in each turn
		e := proposed(&palyrav1.CallToolRequest{Tool: "four"})
		r.add(&palyrav1.RunEvent{CallId: "A", ProposalId: "another", Event: &palyrav1.RunEvent_Proposed{Proposed: e.GetProposed()}})
	}
	r := w.run("run", "x")
	w.want(r, 0)
	for _, want := range []string{"[3] three\n", "[1] one\n", "[2] | from B\n", "[3] | from C\n", "[1] | from A\n", "[1] failed, 1.5s: There is no such file", "[4] four\n"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("does not say %q:\n%s", want, r.err)
		}
	}
}

func TestArguments(t *testing.T) {
	for input, want := range map[string]string{
		`{"path":"a/b.txt","n":3}`:           `n=3 path=a/b.txt`,
		`{"text":"two words","line":"a\nb"}`: `line="a\nb" text="two words"`,
		`{"argv":["git","log"],"e":""}`:      `argv=["git","log"] e=""`,
		`not json`:                           `not json`,
		``:                                   ``,
	} {
		if got := argumentText([]byte(input)); got != want {
			t.Errorf("%s: %s, want %s", input, got, want)
		}
	}
	// One line fits, whatever a model writes, and quickly.
	long, err := json.Marshal(map[string]string{"content": strings.Repeat("x", 1<<20)})
	if err != nil {
		t.Fatal(err)
	}
	calls := newRunCalls(newApp(Streams{ErrTerminal: true, Width: 60, Getenv: func(string) string { return "1" }}))
	c := calls.add("fs.write", long)
	if line := calls.line(c, linePart{nil, c.tool}, linePart{nil, calls.arguments(c)}).String(); lipgloss.Width(line) != 60 || !strings.HasSuffix(line, "…") {
		t.Errorf("%d cells: %q", lipgloss.Width(line), line)
	}
}

// FuzzWrap: wrapped text has the words of the text in order, whatever the
// pieces it comes in, and no line is longer than the terminal unless a word is.
func FuzzWrap(f *testing.F) {
	f.Add("the quick brown fox\n  jumps over", 3, 10)
	f.Add("x\t\ty", 1, 4)
	f.Add("wide 世界 words", 2, 6)
	f.Fuzz(func(t *testing.T, text string, piece, width int) {
		if !utf8.ValidString(text) || piece < 1 || width < 1 || width > 200 {
			t.Skip()
		}
		w, whole := wrapper{width: width}, wrapper{width: width}
		var out bytes.Buffer
		runes := []rune(text)
		for len(runes) > 0 {
			n := min(piece, len(runes))
			out.WriteString(w.add(string(runes[:n])))
			runes = runes[n:]
		}
		out.WriteString(w.end())
		if once := whole.add(text) + whole.end(); out.String() != once {
			t.Errorf("in pieces %q, at once %q", out.String(), once)
		}
		if got, want := strings.Fields(out.String()), strings.Fields(visibleText(text)); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("words %q, want %q", got, want)
		}
	})
}
