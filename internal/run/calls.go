package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"palyra/internal/call"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/run/model"
)

// mostResult bounds the text of one result for the model, in bytes.
const mostResult = 256 << 10

// answerCalls makes the calls of a turn in parallel and passes their results to the model in
// the order of the calls, with the user's messages that arrived meanwhile.
func (c *conversation) answerCalls(ctx context.Context, t model.Turn) *ending {
	results := make([]model.Result, len(t.Calls))
	ends := make([]*ending, len(t.Calls))
	if len(t.Calls) == 1 {
		results[0], ends[0] = c.call(ctx, t.Calls[0], reasonIn(t.Text))
	} else {
		c.sideBySide(len(t.Calls), func(i int) { results[i], ends[i] = c.call(ctx, t.Calls[i], reasonIn(t.Text)) })
	}
	if ctx.Err() != nil {
		return endOf(ctx, ctx.Err())
	}
	if i := slices.IndexFunc(ends, func(e *ending) bool { return e != nil }); i >= 0 {
		return ends[i]
	}
	c.addUserMessage(results, c.run.mailbox.take())
	return nil
}

// sideBySide runs fn for 0..n-1, at most ParallelCalls at once, in order.
func (c *conversation) sideBySide(n int, fn func(int)) {
	var running sync.WaitGroup
	free := make(chan struct{}, c.Limits.ParallelCalls)
	for i := range n {
		free <- struct{}{}
		running.Go(func() {
			fn(i)
			<-free
		})
	}
	running.Wait()
}

// reasonMark is the prefix of the line in which the model gives the reason for the calls of its
// turn. It is not an argument of the calls: tools would receive it, strict schemas would refuse it,
// and the call digest would contain it.
const reasonMark = "palyra-reason:"

// reasonBy is the remedy that describes reasonMark to the model.
const reasonBy = `Repeat the call, and write in the text of the same answer, before the call, a line that begins with "` + reasonMark +
	`" and gives the reason. State the true reason: a user reads it. If you do not know it, ask the user.`

// reasonIn returns the reason in a turn's text: the last line with the mark.
func reasonIn(content string) string {
	said := ""
	for line := range strings.Lines(content) {
		if after, marked := strings.CutPrefix(strings.TrimSpace(line), reasonMark); marked {
			said = text.Clip(strings.TrimSpace(after), call.MaxReason)
		}
	}
	return said
}

// call passes one call through the pipeline, with the model's reason. If the ending is not nil, the
// run ends with it.
func (c *conversation) call(ctx context.Context, wanted model.Call, why string) (model.Result, *ending) {
	if err := ctx.Err(); err != nil {
		return model.Result{}, endOf(ctx, err)
	}
	record := c.run.snapshot()
	over := false
	used := c.run.use(func(u *Usage) {
		if over = u.Calls > record.Budget.Calls; !over {
			u.Calls++
		}
	})
	// The journal contains the first call beyond the budget, but not the turn's further calls.
	if over {
		return model.Result{}, outOfCalls(record.Budget)
	}
	led := c.led()
	defer c.run.tape.expect(led)()
	outcome, err := c.Calls.Call(ctx, call.Submission{
		Caller: c.run.caller, Tool: wanted.Tool, Input: c.inWorkspace(record.Workspace, wanted), Session: c.run.session, Run: record.ID,
		Reason: why, ReasonBy: reasonBy,
		CallID: wanted.ID, MaxCalls: record.Budget.Calls, Lead: led.Drafts, LeadBlobs: led.Blobs,
	}, c.run.tape.observer(ctx, wanted.ID))
	if err != nil {
		c.run.tape.wake() // a refusal has no event on the tape
		if known := (&reason.Error{}); !errors.As(err, &known) && ctx.Err() == nil {
			c.Log.ErrorContext(ctx, "internal error in a call of a run", slog.String("run", record.ID),
				slog.String("tool", wanted.Tool), slog.Any("error", err))
		}
	}
	answer := answerOf(outcome, err)
	result := model.Result{CallID: wanted.ID, Text: answer.text(), Failed: answer.Outcome != string(tool.Succeeded)}
	if end := answer.ends(err); end != nil {
		return result, end
	}
	if used.Calls > record.Budget.Calls || answer.Reason == reason.BudgetExceeded {
		return result, outOfCalls(record.Budget)
	}
	return result, nil
}

// inWorkspace returns the input of a call, with the run's workspace if the tool has one and the
// call names none. Input that is not a JSON object is unchanged; the pipeline refuses it.
func (c *conversation) inWorkspace(name string, wanted model.Call) json.RawMessage {
	i := slices.IndexFunc(c.tools, func(d tool.Descriptor) bool { return d.Name == wanted.Tool })
	if i < 0 || name == "" || !c.tools[i].TakesWorkspace() {
		return wanted.Input
	}
	text, err := canonical.JSON(wanted.Input) // refuses duplicate members
	if err != nil {
		return wanted.Input
	}
	var input map[string]json.RawMessage
	if json.Unmarshal(text, &input) != nil || input == nil {
		return wanted.Input
	}
	if given := string(input[tool.WorkspaceArgument]); given != "" && given != `""` {
		return wanted.Input
	}
	if input[tool.WorkspaceArgument], err = json.Marshal(name); err != nil {
		return wanted.Input
	}
	if text, err = canonical.Marshal(input); err != nil {
		return wanted.Input
	}
	return text
}

func outOfCalls(b Budget) *ending {
	return failed(reason.Errorf(reason.BudgetExceeded, "the run exceeded its budget of %s", text.Plural(b.Calls, "call")))
}

// led returns the write that becomes durable with the call.
func (c *conversation) led() Write {
	if c.lead == nil {
		return Write{}
	}
	return *c.lead
}

// answer is the model's answer to a failed call; for a successful call the model receives only the
// result.
type answer struct {
	// Edited comes first, also before the result of a successful call.
	Edited  string          `json:"executed_as_edited,omitempty"`
	Outcome string          `json:"outcome"`
	Reason  reason.Code     `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"`
	Remedy  string          `json:"remedy,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// answerOf returns the outcome of a call, without details of the policy rules.
func answerOf(o call.Outcome, err error) answer {
	known := &reason.Error{}
	switch {
	case errors.As(err, &known):
		return answer{Outcome: "refused", Reason: known.Code, Message: known.Message, Remedy: known.NextStep()}
	case err != nil:
		known = reason.Fault(err)
		return answer{Outcome: "refused", Reason: known.Code, Message: known.Message, Remedy: known.NextStep()}
	case !o.Decision.Allowed:
		return answer{Outcome: "denied", Reason: o.Decision.Reason, Message: o.Decision.Message, Remedy: o.Decision.Remedy}
	}
	r := o.Report
	return answer{Edited: r.Edited.Text(), Outcome: string(r.Outcome), Reason: reason.Code(r.Reason), Message: r.Message, Remedy: r.Remedy, Result: r.Result}
}

// text returns the answer as the model receives it.
func (a answer) text() string {
	if a.Outcome == string(tool.Succeeded) && len(a.Result) > 0 && a.Edited != "" {
		return cut(a.Edited + "\n" + string(a.Result))
	}
	if a.Outcome == string(tool.Succeeded) && len(a.Result) > 0 {
		return cut(string(a.Result))
	}
	text, err := json.Marshal(a)
	if err != nil {
		a.Result = nil // a result that is not JSON is a fault of its tool
		text, _ = json.Marshal(a)
	}
	return cut(string(text))
}

// endingReasons are the reasons after which no call of the run can succeed.
var endingReasons = []reason.Code{reason.GatewayFrozen, reason.JournalUnavailable, reason.ShuttingDown, reason.AttestationFailed, reason.Unauthenticated}

// ends returns the end of the run after this answer, or nil if it continues.
func (a answer) ends(err error) *ending {
	switch {
	case a.Reason == reason.ShuttingDown:
		return interrupted()
	case !slices.Contains(endingReasons, a.Reason):
		return nil
	case err != nil:
		return endOf(context.Background(), err)
	}
	return failed(reason.Errorf(a.Reason, "%s", a.Message).WithRemedy("%s", a.Remedy))
}

// cut truncates a result to the bound and appends a notice.
func cut(content string) string {
	if len(content) <= mostResult {
		return content
	}
	kept := text.Clip(content, mostResult)
	return fmt.Sprintf("%s\n[truncated by the gateway: first %d of %d bytes; request a smaller part]", kept, len(kept), len(content))
}
