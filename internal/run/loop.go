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
	// tapeLife is how long the tape of a run that ended stays in memory.
	tapeLife = 5 * time.Minute
	// endRetry is the pause after an end that could not be made durable.
	endRetry = 2 * time.Second
)

// drive takes a run from its task to its end. What the model does is done in
// thinking, which ends with all.
func (m *Manager) drive(all, thinking context.Context, r *active, task string) {
	defer r.stop(nil)
	// Counted from here: the journal's time may be ahead of a clock that was
	// set back.
	budget := r.snapshot().Budget
	clock := time.AfterFunc(budget.WallClock, func() { r.stop(outOfTime(budget)) })
	defer clock.Stop()

	c := &conversation{Manager: m, run: r, messages: []model.Message{{Role: model.User, Text: task}}}
	end := c.loop(all, thinking)
	if end.cause != nil {
		m.Log.ErrorContext(all, "a run met a fault of the gateway", slog.String("run", r.snapshot().ID), slog.Any("error", end.cause))
	}
	r.mailbox.close()
	if !m.end(all, r, end, c.lead) {
		m.tapes.remove(r.tape)
		return
	}
	close(r.ended)
	m.Log.InfoContext(all, "run ended", slog.String("run", r.snapshot().ID), slog.String("state", string(end.state)),
		slog.String("reason", string(r.snapshot().Reason)))
	m.rest(r)
}

// rest keeps the tape of a run that ended for those who come back to it.
func (m *Manager) rest(r *active) {
	timer := time.NewTimer(tapeLife)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.stopping:
	}
	m.tapes.remove(r.tape)
}

func outOfTime(b Budget) *ending {
	return failed(reason.Errorf(reason.TimeBudget, "the run took longer than %s", b.WallClock))
}

// end makes the end of a run durable, and tries until it is: only a stop of
// the gateway leaves that to the next start.
func (m *Manager) end(ctx context.Context, r *active, end *ending, lead *Write) bool {
	ctx = context.WithoutCancel(ctx)
	for {
		err := m.writeEnd(ctx, r, end, lead)
		if err == nil {
			return true
		}
		m.Log.ErrorContext(ctx, "the end of a run could not be recorded", slog.String("run", r.snapshot().ID), slog.Any("error", err))
		pause := time.NewTimer(endRetry)
		select {
		case <-pause.C:
		case <-m.stopping:
			pause.Stop()
			return m.writeEnd(ctx, r, end, lead) == nil
		}
	}
}

// writeEnd writes the run's last event, after the model's last answer when
// that was to become durable with a call that never began.
func (m *Manager) writeEnd(ctx context.Context, r *active, end *ending, lead *Write) error {
	record := end.apply(r.snapshot())
	w, err := finishedWrite(record)
	if err != nil {
		return err
	}
	if lead != nil {
		turns, err := r.tape.turns(ctx)
		if err != nil {
			return err
		}
		if turns < record.Usage.Turns {
			w = Write{Drafts: slices.Concat(lead.Drafts, w.Drafts), Blobs: slices.Concat(lead.Blobs, w.Blobs)}
		}
	}
	return r.tape.finish(ctx, func() error {
		if record, err = m.Store.End(ctx, record, w); err != nil {
			return err
		}
		r.mu.Lock()
		r.record = record
		r.mu.Unlock()
		m.leave(r)
		return nil
	})
}

// apply returns the record of a run that ended so.
func (e *ending) apply(r Record) Record {
	r.State, r.CancelledBy = e.state, e.by
	if e.why != nil {
		r.Reason, r.Detail, r.Remedy = e.why.Code, tool.RedactText(e.why.Message), e.why.NextStep()
	}
	return r
}

// conversation is a run as its model sees it.
type conversation struct {
	*Manager
	run      *active
	messages []model.Message
	// tools are those that the model was told of for its last turn.
	tools []tool.Descriptor
	// lead is the answer that becomes durable with its only call.
	lead *Write
}

// loop asks the model and makes its calls until the run ends.
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
			if end := c.goOn(all, turn); end != nil {
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
		c.hear(nil, texts)
	}
}

// goOn does what a turn wants that is not the model's last.
func (c *conversation) goOn(ctx context.Context, t model.Turn) *ending {
	if end := c.outOfTokens(); end != nil {
		return end
	}
	if end := badStop(t); end != nil {
		return end
	}
	return c.answerCalls(ctx, t)
}

// outOfTokens is how a run ends that may ask its model nothing more.
func (c *conversation) outOfTokens() *ending {
	record := c.run.snapshot()
	if used := record.Usage.tokens(); used >= record.Budget.Tokens {
		return failed(reason.Errorf(reason.ModelBudget, "the run used %s and %d are allowed", text.Plural(used, "token"), record.Budget.Tokens))
	}
	return nil
}

func (u Usage) tokens() int64 { return u.InputTokens + u.OutputTokens }

// badStop is how a run ends whose model did not come to the end of its turn.
func badStop(t model.Turn) *ending {
	switch t.Stop {
	case model.MaxTokens:
		return failed(reason.Errorf(reason.ModelBudget, "the model's answer reached the bound of one turn, %s, and was cut off", text.Plural(t.Usage.OutputTokens, "token")).
			WithRemedy("Raise max_output_tokens of the model in palyra.toml, or give it a smaller task."))
	case model.Refusal:
		return failed(reason.Errorf(reason.ModelRejected, "the model refused to go on").
			WithRemedy("Read its last answer; word the task differently, or use another model."))
	}
	return nil
}

// generate asks the model for its next turn and tells the tape what comes.
func (c *conversation) generate(ctx context.Context) (model.Turn, error) {
	record := c.run.snapshot()
	request := model.Request{
		Run: record.ID, System: c.systemPrompt(), Messages: c.messages, Tools: modelTools(c.tools),
		MaxTokens: record.Budget.Tokens - record.Usage.tokens(),
	}
	told := context.WithoutCancel(ctx)
	var mu sync.Mutex
	ended := false
	turn, err := c.run.provider.Generate(ctx, request, func(e model.Event) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			c.tell(told, e)
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

// tell adds what comes of a turn to the tape.
func (c *conversation) tell(ctx context.Context, e model.Event) {
	switch {
	case e.Delta != nil:
		c.run.tape.add(ctx, Event{Delta: &Delta{Text: e.Delta.Text}})
	case e.Retry != nil:
		c.run.tape.add(ctx, Event{Retry: &Retry{Attempt: e.Retry.Attempt, Message: publicMessage(e.Retry.Cause), After: e.Retry.After}})
	}
}

// publicMessage is what may be shown of an error.
func publicMessage(err error) string {
	if known := (&reason.Error{}); errors.As(err, &known) {
		return tool.RedactText(known.Message)
	}
	return reason.Lookup(reason.Of(err)).Sentence
}

// keepTurn makes the model's answer durable. The answer with one call becomes
// durable with that call's first event, which saves a write.
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

// hear adds what the user's side says next.
func (c *conversation) hear(results []model.Result, texts []string) {
	c.messages = append(c.messages, model.Message{Role: model.User, Results: results, Text: strings.Join(texts, "\n\n")})
}
