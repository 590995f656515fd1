//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/rpc"
)

// script is a model that answers every message of the user with a call of echo, and the result of
// the call with a word.
const script = `repeat: true
turns:
  - calls:
      - {tool: echo, input: {text: hello}}
    usage: {input: 1, output: 1}
  - text: Done.
    usage: {input: 1, output: 1}
`

// scripted returns the configuration table that makes script the model.
func (b *bench) scripted() (string, error) {
	path := filepath.Join(b.dir, "script.yaml")
	err := os.WriteFile(path, []byte(script), 0o600)
	return fmt.Sprintf("[[models]]\nname = \"bench\"\nprovider = \"scripted\"\nscript = %q\n", path), err
}

// runningModel is running with the model of script.
func (b *bench) runningModel() (*gateway, *client, error) {
	models, err := b.scripted()
	if err != nil {
		return nil, nil, err
	}
	return b.running("", models)
}

// conversation is an interactive run over RunStream.
type conversation struct {
	stream *rpc.BidiStream[*palyrav1.RunStreamRequest, *palyrav1.RunStreamResponse]
}

// newConversation starts a run and waits until the model has ended its first
// turn.
func newConversation(ctx context.Context, c *client) (*conversation, error) {
	stream, err := c.gateway.RunStream(ctx)
	if err != nil {
		return nil, err
	}
	v := &conversation{stream}
	start := &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Start{
		Start: &palyrav1.StartRunRequest{Message: "go", Interactive: true},
	}}
	if err := stream.Send(start); err != nil {
		return nil, err
	}
	return v, v.await(isEndOfTurn)
}

// say sends a message and returns the time until the attestation of the model's call, in
// microseconds. The model then ends its turn.
func (v *conversation) say() (float64, error) {
	started := time.Now()
	if err := v.stream.Send(userMessage("go")); err != nil {
		return 0, err
	}
	if err := v.await(isAttestation); err != nil {
		return 0, err
	}
	took := micros(time.Since(started))
	return took, v.await(isEndOfTurn)
}

// p50 returns the median of n messages.
func (v *conversation) p50(n int) (float64, error) {
	values := make([]float64, n)
	for i := range values {
		var err error
		if values[i], err = v.say(); err != nil {
			return 0, err
		}
	}
	return median(values), nil
}

// await reads the tape until a matching event.
func (v *conversation) await(is func(*palyrav1.RunEvent) bool) error {
	for {
		m, err := v.stream.Receive()
		if err != nil {
			return err
		}
		if r := m.GetRefused(); r != nil {
			return fmt.Errorf("the run refused a message: %s %s", r.GetReason(), r.GetMessage())
		}
		if f := m.GetEvent().GetFinished(); f != nil {
			return fmt.Errorf("the run ended: %s %s", f.GetRun().GetReason(), f.GetRun().GetDetail())
		}
		if is(m.GetEvent()) {
			return nil
		}
	}
}

func isAttestation(e *palyrav1.RunEvent) bool { return e.GetAttestation() != nil }

func isEndOfTurn(e *palyrav1.RunEvent) bool {
	t := e.GetModelTurn()
	return t != nil && len(t.GetCalls()) == 0
}

// close disconnects from the run, which then ends.
func (v *conversation) close() error {
	return errors.Join(v.stream.CloseRequest(), v.stream.CloseResponse())
}
