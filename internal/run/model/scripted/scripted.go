// Package scripted plays a YAML file of turns in place of a model, for demos,
// tests and benchmarks. docs/models.md describes the format.
package scripted

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/run/model"
)

// Config says what is played.
type Config struct {
	// File is the script; messages name it.
	File string
	// Model is what Turn.Model says; "" means "scripted".
	Model   string
	Retries model.Retries
}

// Provider is a model.Provider. It keeps no state: which turn comes next follows
// from the conversation in the request, so that any number of runs can use it at
// the same time.
type Provider struct {
	config Config
	script *script
}

var _ model.Provider = (*Provider)(nil)

// New reads the script of c.
func New(c Config) (*Provider, error) {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "the script cannot be read: %w", err).
			WithRemedy("Set script to the file that the model is to play.")
	}
	return Parse(c, text)
}

// Parse takes text for the contents of c.File.
func Parse(c Config, text []byte) (*Provider, error) {
	script, err := parse(text)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "script %s: %w", c.File, err).
			WithRemedy("Correct the script; docs/models.md describes the format.")
	}
	c.Model = cmp.Or(c.Model, "scripted")
	return &Provider{config: c, script: script}, nil
}

// Generate plays the next turn of the conversation.
func (p *Provider) Generate(ctx context.Context, r model.Request, observe func(model.Event)) (model.Turn, error) {
	turns, repeat, err := p.script.choose(r.Messages)
	if err != nil {
		return model.Turn{}, p.rejected("%w", err)
	}
	n := played(r.Messages)
	if n >= len(turns) && !repeat {
		return model.Turn{}, p.rejected("the script is at its end: it has %d turns for this conversation", len(turns))
	}
	next := turns[n%len(turns)]
	for _, e := range next.Expect {
		if err := e.check(r.Messages); err != nil {
			return model.Turn{}, p.rejected("turn %d (line %d): %w", n%len(turns)+1, next.line, err)
		}
	}
	failures := 0
	return p.config.Retries.Generate(ctx, observe, func(ctx context.Context) (model.Turn, error) {
		if failures < next.Error.Unavailable {
			failures++
			return model.Turn{}, next.fail(ctx, observe)
		}
		if next.Error.Rejected != "" {
			return model.Turn{}, p.rejected("%s", next.Error.Rejected)
		}
		if err := say(ctx, words(next.Text), next.Delay, observe); err != nil {
			return model.Turn{}, err
		}
		turn := next.turn(n)
		turn.Model = p.config.Model
		return model.Finish(r, turn), nil
	})
}

func (p *Provider) rejected(format string, args ...any) error {
	return reason.Errorf(reason.ModelRejected, "script %s: %w", p.config.File, fmt.Errorf(format, args...)).
		WithRemedy("Compare the conversation with the script; docs/models.md describes the format.")
}

// played counts the turns that the conversation has had.
func played(conversation []model.Message) int {
	n := 0
	for _, m := range conversation {
		if m.Role == model.Assistant {
			n++
		}
	}
	return n
}

// fail shows the first half of the turn, as a provider does whose stream
// breaks.
func (t *turn) fail(ctx context.Context, observe func(model.Event)) error {
	parts := words(t.Text)
	if err := say(ctx, parts[:len(parts)/2], t.Delay, observe); err != nil {
		return err
	}
	return model.Unavailable("the script says that the model is unavailable")
}

// turn is the turn in the model's terms; n counts those before it.
func (t *turn) turn(n int) model.Turn {
	out := model.Turn{Text: t.Text, Stop: t.Stop, Usage: model.Usage{InputTokens: t.Usage.Input, OutputTokens: t.Usage.Output}}
	for i, c := range t.Calls {
		out.Calls = append(out.Calls, model.Call{ID: fmt.Sprintf("call_%d_%d", n+1, i+1), Tool: c.Tool, Input: c.json})
	}
	return out
}

// say streams text word by word.
func say(ctx context.Context, words []string, delay time.Duration, observe func(model.Event)) error {
	for _, word := range words {
		if !wait(ctx, delay) {
			return ctx.Err()
		}
		observe(model.Event{Delta: &model.Delta{Text: word}})
	}
	return nil
}

// wait reports whether ctx let it.
func wait(ctx context.Context, delay time.Duration) bool {
	if delay == 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(delay):
		return true
	}
}

// words splits text after its spaces.
func words(text string) []string {
	if text == "" {
		return nil
	}
	return strings.SplitAfter(text, " ")
}
