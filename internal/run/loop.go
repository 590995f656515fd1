package run

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/run/model"
)

const (
	// tapeLife is how long the tape of an ended run stays in memory.
	tapeLife = 5 * time.Minute
	// endRetry is the pause after an end that could not be made durable.
	endRetry = 2 * time.Second
)

// drive executes a run from its task to its end. The model's work uses the context thinking, which
// ends with all.
func (m *Manager) drive(all, thinking context.Context, r *active, task string) {
	defer r.stop(nil)
	// The budget starts now, because the journal's time may be ahead of a clock that was set back.
	budget := r.snapshot().Budget
	clock := time.AfterFunc(budget.WallClock, func() { r.stop(outOfTime(budget)) })
	defer clock.Stop()

	c := &conversation{Config: &m.Config, roster: m.Roster, run: r, messages: []model.Message{{Role: model.User, Text: task}}}
	end := c.loop(all, thinking)
	if end.cause != nil {
		m.Log.ErrorContext(all, "internal error in a run", slog.String("run", r.snapshot().ID), slog.Any("error", end.cause))
	}
	r.mailbox.close()
	if !c.end(all, end) {
		m.tapes.remove(r.tape)
		return
	}
	close(r.ended)
	m.Log.InfoContext(all, "run ended", slog.String("run", r.snapshot().ID), slog.String("state", string(end.state)),
		slog.String("reason", string(r.snapshot().Reason)))
	m.retainTape(r)
}

// retainTape keeps the tape of an ended run for clients that reconnect.
func (m *Manager) retainTape(r *active) {
	timer := time.NewTimer(tapeLife)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.Roster.stopping:
	}
	m.tapes.remove(r.tape)
}

func outOfTime(b Budget) *ending {
	return failed(reason.Errorf(reason.TimeBudget, "the run took longer than %s", b.WallClock))
}

// apply returns the record of a run with this end.
func (e *ending) apply(r Record) Record {
	r.State, r.CancelledBy = e.state, e.by
	if e.why != nil {
		r.Reason, r.Detail, r.Remedy = e.why.Code, tool.RedactText(e.why.Message), e.why.NextStep()
	}
	return r
}

// conversation is the exchange of a run with its model.
type conversation struct {
	*Config
	roster   *Roster
	run      *active
	messages []model.Message
	// tools are the tools that the model received for its last turn.
	tools []tool.Descriptor
	// lead is the answer that becomes durable with its only call.
	lead *Write
}

// end makes the end of a run durable, and retries until it succeeds. If the gateway stops first,
// its next start records the end.
func (c *conversation) end(ctx context.Context, end *ending) bool {
	ctx = context.WithoutCancel(ctx)
	for {
		err := c.writeEnd(ctx, end)
		if err == nil {
			return true
		}
		c.Log.ErrorContext(ctx, "recording the end of a run failed", slog.String("run", c.run.snapshot().ID), slog.Any("error", err))
		pause := time.NewTimer(endRetry)
		select {
		case <-pause.C:
		case <-c.roster.stopping:
			pause.Stop()
			return c.writeEnd(ctx, end) == nil
		}
	}
}

// writeEnd writes the run's last event. If the model's last answer was to become durable with a
// call that never started, writeEnd also writes the answer, before that event.
func (c *conversation) writeEnd(ctx context.Context, end *ending) error {
	r := c.run
	record := end.apply(r.snapshot())
	w, err := finishedWrite(record)
	if err != nil {
		return err
	}
	if c.lead != nil {
		turns, err := r.tape.turns(ctx)
		if err != nil {
			return err
		}
		if turns < record.Usage.Turns {
			w = Write{Drafts: slices.Concat(c.lead.Drafts, w.Drafts), Blobs: slices.Concat(c.lead.Blobs, w.Blobs)}
		}
	}
	return r.tape.finish(ctx, func() error {
		if record, err = c.Store.End(ctx, record, w); err != nil {
			return err
		}
		r.mu.Lock()
		r.record = record
		r.mu.Unlock()
		c.roster.leave(r)
		return nil
	})
}

// loop requests turns from the model and makes its calls until the run ends.
func (c *conversation) loop(all, thinking context.Context) *ending {
	for {
		if end := c.outOfTokens(); end != nil {
			return end
		}
		c.tools = c.Catalog(c.run.caller)
		turn, err := c.generate(thinking)
		if err != nil {
			return endOf(thinking, err)
		}
		if err = c.keepTurn(all, turn); err != nil {
			return endOf(all, err)
		}
		if badStop(turn) != nil || len(turn.Calls) > 0 {
			if end := c.processTurn(all, turn); end != nil {
				return end
			}
			continue
		}
		texts, err := c.run.mailbox.next(thinking, c.run.snapshot().Interactive, c.Limits.AbandonedAfter)
		switch {
		case err != nil:
			return endOf(thinking, err)
		case len(texts) == 0:
			return completed
		}
		c.addUserMessage(nil, texts)
	}
}

// processTurn processes a turn that is not the model's last one.
func (c *conversation) processTurn(ctx context.Context, t model.Turn) *ending {
	if end := c.outOfTokens(); end != nil {
		return end
	}
	if end := badStop(t); end != nil {
		return end
	}
	return c.answerCalls(ctx, t)
}

// outOfTokens returns the end of a run without remaining tokens, or nil.
func (c *conversation) outOfTokens() *ending {
	record := c.run.snapshot()
	if used := record.Usage.tokens(); used >= record.Budget.Tokens {
		return failed(reason.Errorf(reason.ModelBudget, "the run used %s, above its budget of %d", text.Plural(used, "token"), record.Budget.Tokens))
	}
	return nil
}

func (u Usage) tokens() int64 { return u.InputTokens + u.OutputTokens }

// badStop returns the end of a run whose model did not complete its turn.
func badStop(t model.Turn) *ending {
	switch t.Stop {
	case model.MaxTokens:
		return failed(reason.Errorf(reason.ModelBudget, "the model's answer was truncated at the limit of one turn, %s", text.Plural(t.Usage.OutputTokens, "token")).
			WithRemedy("Raise max_output_tokens of the model in palyra.toml, or give it a smaller task."))
	case model.Refusal:
		return failed(reason.Errorf(reason.ModelRejected, "the model refused to continue").
			WithRemedy("Read its last answer; word the task differently, or use another model."))
	}
	return nil
}

// generate requests the model's next turn and adds its events to the tape.
func (c *conversation) generate(ctx context.Context) (model.Turn, error) {
	record := c.run.snapshot()
	request := model.Request{
		Run: record.ID, System: c.systemPrompt(), Messages: c.messages, Tools: modelTools(c.tools),
		MaxTokens: record.Budget.Tokens - record.Usage.tokens(),
	}
	tapeCtx := context.WithoutCancel(ctx)
	var mu sync.Mutex
	ended := false
	turn, err := c.run.provider.Generate(ctx, request, func(e model.Event) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			c.addToTape(tapeCtx, e)
		}
	})
	mu.Lock()
	defer mu.Unlock()
	ended = true
	if err != nil {
		return turn, err
	}
	c.run.use(func(u *Usage) {
		u.Turns++
		u.InputTokens += turn.Usage.InputTokens
		u.OutputTokens += turn.Usage.OutputTokens
	})
	return turn, nil
}

// addToTape adds an event of a turn to the tape.
func (c *conversation) addToTape(ctx context.Context, e model.Event) {
	switch {
	case e.Delta != nil:
		c.run.tape.add(ctx, Event{Delta: &Delta{Text: e.Delta.Text}})
	case e.Retry != nil:
		c.run.tape.add(ctx, Event{Retry: &Retry{Attempt: e.Retry.Attempt, Message: publicMessage(e.Retry.Cause), After: e.Retry.After}})
	}
}

// publicMessage returns the part of an error that clients may receive.
func publicMessage(err error) string {
	if known := (&reason.Error{}); errors.As(err, &known) {
		return tool.RedactText(known.Message)
	}
	return reason.Lookup(reason.Of(err)).Sentence
}

// keepTurn makes the model's answer durable. An answer with one call becomes durable with that
// call's first event, which saves a write.
func (c *conversation) keepTurn(ctx context.Context, t model.Turn) error {
	record := c.run.snapshot()
	w, err := turnWrite(record, record.Usage.Turns, t, c.tools)
	if err != nil {
		return err
	}
	c.lead = nil
	if t.Text != "" || len(t.Calls) > 0 {
		c.messages = append(c.messages, model.Message{Role: model.Assistant, Text: t.Text, Calls: t.Calls})
	}
	if len(t.Calls) == 1 && w.light() && badStop(t) == nil {
		c.lead = &w
		return nil
	}
	return c.run.tape.write(context.WithoutCancel(ctx), w)
}

// addUserMessage adds the next results and messages of the user's side.
func (c *conversation) addUserMessage(results []model.Result, texts []string) {
	c.messages = append(c.messages, model.Message{Role: model.User, Results: results, Text: strings.Join(texts, "\n\n")})
}
