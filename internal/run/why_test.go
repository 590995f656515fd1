package run_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	toolcall "palyra/internal/call"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/run"
	"palyra/internal/run/model"
)

// The model gets the question and the form of its answer. The reason in the text of its next
// turn is passed with the calls, whose arguments stay unchanged.
func TestModelGivesAReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		saying := func(context.Context, model.Request, func(model.Event)) (model.Turn, error) {
			return model.Turn{
				Text:  "I need it. palyra-reason: not this\n palyra-reason: OPS-1\npalyra-reason: OPS-2, as ada asked \nNow I call.",
				Calls: []model.Call{modelCall("b", "why", `{"x":1}`), modelCall("c", "why", `{"x":2}`)}, Stop: model.ToolUse, Model: "m-1",
			}, nil
		}
		w := newWorld(t, calls(modelCall("a", "why", `{"x":1}`)), saying, says("done"))
		defer w.stop()
		w.pipeline.tools["why"] = func(_ context.Context, s toolcall.Submission, _ func(string)) (tool.Report, error) {
			if s.Reason == "" {
				return tool.Report{}, reason.Errorf(reason.RequestReasonNeeded, "which ticket?").WithRemedy("%s", s.ReasonBy)
			}
			return returns(`{"ok":true}`)(nil, s, nil)
		}
		r, _ := w.start(run.Start{})
		wantEnd(t, w.finish(r.ID), run.Completed, "")
		told := result(w.model.asked(2), 0)
		if !strings.Contains(told.Text, "REQUEST_REASON_NEEDED") || !strings.Contains(told.Text, `palyra-reason:`) {
			t.Errorf("the model is told %s", told.Text)
		}
		for i, want := range []string{"", "OPS-2, as ada asked", "OPS-2, as ada asked"} {
			if s := w.pipeline.submitted[i]; s.Reason != want || !strings.HasPrefix(string(s.Input), `{"x":`) || strings.Contains(string(s.Input), "OPS") {
				t.Errorf("call %d: %q with %s", i, s.Reason, s.Input)
			}
		}
	})
}

// TestModelReceivesTheEdit: the result of an edited call starts with the statement that another
// call ran, whether it succeeded or failed. The result of an unedited call has no such
// statement.
func TestModelReceivesTheEdit(t *testing.T) {
	t.Parallel()
	edited := &tool.Edited{
		ApprovalID: "a", By: []string{"user:bob"}, Reason: "only look", Changes: []tool.Difference{{Field: "/argv", Was: `["make"]`, Is: `["make","-n"]`}},
	}
	first := `executed_as_edited: user:bob changed this call before it was approved; it ran as changed, not as proposed. /argv was ["make"] and is ["make","-n"]. They say: only look`
	for name, c := range map[string]struct {
		report tool.Report
		starts string
	}{
		"succeeded":   {tool.Report{Edited: edited, Outcome: tool.Succeeded, Result: []byte(`{"ok":true}`)}, first + "\n" + `{"ok":true}`},
		"without any": {tool.Report{Edited: edited, Outcome: tool.Succeeded}, `{"executed_as_edited":"executed_as_edited: user:bob changed`},
		"failed":      {tool.Report{Edited: edited, Outcome: tool.Failed, Reason: "TOOL_FAILED", Message: "no"}, `{"executed_as_edited":"executed_as_edited: user:bob changed`},
		"as proposed": {tool.Report{Outcome: tool.Succeeded, Result: []byte(`{"ok":true}`)}, `{"ok":true}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, calls(modelCall("a", "work", `{}`)), says("done"))
			defer w.stop()
			w.pipeline.tools["work"] = func(context.Context, toolcall.Submission, func(string)) (tool.Report, error) { return c.report, nil }
			r, _ := w.start(run.Start{})
			wantEnd(t, w.finish(r.ID), run.Completed, "")
			if got := result(w.model.asked(2), 0).Text; !strings.HasPrefix(got, c.starts) {
				t.Errorf("%s: the model is told %s", name, got)
			}
		})
	}
}
