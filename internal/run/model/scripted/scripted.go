// Package scripted plays a YAML file of turns in place of a model, for demos,
// tests and benchmarks. docs/scripted-models.md describes the format.
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

// Config selects the script.
type Config struct {
	// File is the path of the script. Error messages contain it.
	File string
	// Model is the value of Turn.Model; "" means "scripted".
	Model   string
	Retries model.Retries
}

// Provider is a model.Provider. It is stateless: the next turn follows from the conversation in the
// request, so that any number of runs can use it concurrently.
type Provider struct {
	config Config
	script *script
}

var _ model.Provider = (*Provider)(nil)

// New reads the script of c.
func New(c Config) (*Provider, error) {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "reading the script: %w", err).
			WithRemedy("Set script to the path of the script file.")
	}
	return Parse(c, text)
}

// Parse parses text as the contents of c.File.
func Parse(c Config, text []byte) (*Provider, error) {
	script, err := parse(text)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "script %s: %w", c.File, err).
			WithRemedy("Correct the script; docs/scripted-models.md describes the format.")
	}
	c.Model = cmp.Or(c.Model, "scripted")
	return &Provider{config: c, script: script}, nil
}

// Generate returns the next turn of the conversation.
func (p *Provider) Generate(ctx context.Context, r model.Request, observe func(model.Event)) (model.Turn, error) {
	turns, repeat, err := p.script.choose(r.Messages)
	if err != nil {
		return model.Turn{}, p.rejected("%w", err)
	}
	n := played(r.Messages)
	if n >= len(turns) && !repeat {
		return model.Turn{}, p.rejected("the script has ended: it has %d turns for this conversation", len(turns))
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
		if err := stream(ctx, words(next.Text), next.Delay, observe); err != nil {
			return model.Turn{}, err
		}
		turn := next.turn(n)
		turn.Model = p.config.Model
		return model.Finish(r, turn), nil
	})
}

func (p *Provider) rejected(format string, args ...any) error {
	return reason.Errorf(reason.ModelRejected, "script %s: %w", p.config.File, fmt.Errorf(format, args...)).
		WithRemedy("Compare the conversation with the script; docs/scripted-models.md describes the format.")
}

// played counts the past turns of the conversation.
func played(conversation []model.Message) int {
	n := 0
	for _, m := range conversation {
		if m.Role == model.Assistant {
			n++
		}
	}
	return n
}

// fail streams the first half of the turn, like a provider whose stream breaks.
func (t *turn) fail(ctx context.Context, observe func(model.Event)) error {
	parts := words(t.Text)
	if err := stream(ctx, parts[:len(parts)/2], t.Delay, observe); err != nil {
		return err
	}
	return model.Unavailable("the script simulates an unavailable model")
}

// turn converts the turn to a model.Turn; n counts the turns before it.
func (t *turn) turn(n int) model.Turn {
	out := model.Turn{Text: t.Text, Stop: t.Stop, Usage: model.Usage{InputTokens: t.Usage.Input, OutputTokens: t.Usage.Output}}
	for i, c := range t.Calls {
		out.Calls = append(out.Calls, model.Call{ID: fmt.Sprintf("call_%d_%d", n+1, i+1), Tool: c.Tool, Input: c.json})
	}
	return out
}

// stream streams text word by word.
func stream(ctx context.Context, words []string, delay time.Duration, observe func(model.Event)) error {
	for _, word := range words {
		if !wait(ctx, delay) {
			return ctx.Err()
		}
		observe(model.Event{Delta: &model.Delta{Text: word}})
	}
	return nil
}

// wait waits for the delay. It returns false if ctx has ended.
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
