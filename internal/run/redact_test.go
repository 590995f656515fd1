package run_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/run"
	"palyra/internal/run/model"
)

// secretKey is a secret by its form, and declared by the tool's schema.
const (
	secretKey = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	declared  = "hunter2-hunter2"
)

func TestNothingSecretIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inputs := []model.Call{
			modelCall("a", "echo", `{"token":"`+declared+`","x":"`+secretKey+`"}`),
			modelCall("b", "echo", `{"token":"`+declared+`"`),                      // not JSON: the position of the secret is unknown
			modelCall("c", "echo", `{"token":"`+declared+`","token":"`+"x"+`"}`),   // a duplicate key
			modelCall("d", "none", `{"token":"`+declared+`"}`),                     // a tool that the model did not get
			modelCall("e", "plain", `{"x":"`+secretKey+`","x":"1"}`),               // a duplicate key hides the first value
			modelCall("f", "plain", strings.Repeat("x", 20<<10)+" "+secretKey),     // in a blob
			modelCall("g", "echo", `{"tok`+"\\u0065"+`n":"`+declared+`","y":"z"}`), // an escaped name
		}
		said := make(chan struct{})
		w := newWorld(t, func(_ context.Context, _ model.Request, observe func(model.Event)) (model.Turn, error) {
			<-said // otherwise the run could end before the message
			observe(model.Event{Retry: &model.Retry{Attempt: 1, Cause: reason.Errorf(reason.ModelUnavailable, "key %s", secretKey), After: time.Second}})
			return model.Turn{Text: "I have " + secretKey, Calls: inputs, Stop: model.ToolUse}, nil
		}, func(context.Context, model.Request, func(model.Event)) (model.Turn, error) {
			return model.Turn{}, reason.Errorf(reason.ModelRejected, "the provider did not like %s", secretKey)
		})
		defer w.stop()
		w.pipeline.tools = nil // the pipeline has its own redaction
		r, inbox := w.start(run.Start{Message: "use " + secretKey + " " + strings.Repeat("y", 20<<10)})
		must.Do(t, inbox.Say(t.Context(), "or "+secretKey))
		close(said)
		w.finish(r.ID)
		stored := w.store.text()
		for _, secret := range []string{secretKey, declared} {
			if strings.Contains(stored, secret) {
				i := strings.Index(stored, secret)
				t.Errorf("the store has %q", stored[max(i-80, 0):i+20])
			}
		}
		for _, e := range w.events(r.ID, 0) {
			if e.Retry != nil && strings.Contains(e.Retry.Message, secretKey) {
				t.Errorf("the tape shows %q", e.Retry.Message)
			}
		}
		if !strings.Contains(stored, "[redacted]") {
			t.Error("nothing was redacted")
		}
		if got := w.model.asked(1).Messages[0].Text; !strings.Contains(got, secretKey) {
			t.Error("the model was given the task without what it is about")
		}
	})
}

func TestLargeTextsAreBlobsAndComeBackWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		large := func(c string) string { return strings.Repeat(c, 40<<10) }
		said := make(chan struct{})
		w := newWorld(t, func(context.Context, model.Request, func(model.Event)) (model.Turn, error) {
			<-said // otherwise the run could end before the message
			return model.Turn{Text: large("t"), Calls: []model.Call{modelCall("a", "plain", `"`+large("i")+`"`)}, Stop: model.ToolUse}, nil
		}, says("done"))
		defer w.stop()
		w.pipeline.tools["plain"] = returns(`"` + large("r") + `"`)
		r, inbox := w.start(run.Start{Message: large("m")})
		must.Do(t, inbox.Say(t.Context(), large("s")))
		close(said)
		if end := w.finish(r.ID); len(end.Message) >= 40<<10 {
			t.Errorf("the row keeps %d bytes of the task", len(end.Message))
		}
		for _, e := range w.store.all() {
			if len(e.Payload) > 20<<10 {
				t.Errorf("the payload of %s has %d bytes", e.Code, len(e.Payload))
			}
		}
		got := map[string]string{}
		for _, e := range w.events(r.ID, 0) {
			switch {
			case e.Started != nil:
				got["started"] = e.Started.Message
			case e.Message != nil:
				got["message"] = e.Message.Text
			case e.Turn != nil && e.Turn.N == 1:
				got["turn"], got["input"] = e.Turn.Text, e.Turn.Calls[0].Input
			case e.Result != nil:
				got["result"] = string(e.Result.Result)
			}
		}
		for what, want := range map[string]string{
			"started": large("m"), "message": large("s"), "turn": large("t"), "input": `"` + large("i") + `"`, "result": `"` + large("r") + `"`,
		} {
			if got[what] != want {
				t.Errorf("%s has %d bytes, want %d", what, len(got[what]), len(want))
			}
		}
	})
}
