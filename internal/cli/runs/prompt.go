package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
)

// messagePrompt waits for the user's next message to the model.
type messagePrompt struct {
	cancel context.CancelFunc
	line   chan typedLine
}

type typedLine struct {
	text string
	err  error
}

const messageQuestion = "you> "

// askMessage reads the next message of an interactive run in the background.
func (s *runSession) askMessage(ctx context.Context) {
	if !s.interactive || s.prompt != nil || s.cancelling {
		return
	}
	s.endLine()
	fmt.Fprint(s.a.Err, messageQuestion)
	ctx, cancel := context.WithCancel(ctx)
	p := &messagePrompt{cancel: cancel, line: make(chan typedLine, 1)}
	go func() {
		text, err := s.a.NextLine(ctx)
		p.line <- typedLine{text, err}
	}()
	s.prompt = p
}

func (s *runSession) promptLine() <-chan typedLine {
	if s.prompt == nil {
		return nil
	}
	return s.prompt.line
}

// closePrompt stops waiting for a message.
func (s *runSession) closePrompt() {
	if s.prompt == nil {
		return
	}
	s.prompt.cancel()
	<-s.prompt.line
	s.prompt = nil
	fmt.Fprintln(s.a.Err)
}

// say sends a typed message. The end of the input ends the conversation, and the run completes.
func (s *runSession) say(ctx context.Context, typed typedLine) {
	s.prompt.cancel()
	s.prompt = nil
	text := strings.TrimSpace(strings.ToValidUTF8(typed.text, "�"))
	switch {
	case errors.Is(typed.err, io.EOF):
		fmt.Fprintln(s.a.Err)
		s.interactive = false
		s.link.sendClose()
	case typed.err != nil:
		s.a.Say("%v", typed.err)
		s.interactive = false
		s.link.sendClose()
	case text == "":
		s.askMessage(ctx)
	default:
		msg := &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_UserMessage{UserMessage: &palyrav1.UserMessage{Text: text}}}
		if sent, _ := s.link.trySend(msg); !sent {
			s.a.Say("not connected; type it again in a moment")
			s.askMessage(ctx)
			return
		}
		s.sent = text
	}
}
