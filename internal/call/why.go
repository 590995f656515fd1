package call

import (
	"strings"
	"unicode/utf8"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// MaxReason bounds the reason of a requester, in characters.
const MaxReason = 1024

// requesterReason is what a caller says of why it wants the call, as it is kept: what
// has the form of a key is redacted. It is no part of the call digest: nothing of it
// reaches the tool.
func requesterReason(said string) (string, error) {
	said = strings.TrimSpace(said)
	if n := utf8.RuneCountInString(said); n > MaxReason {
		return "", reason.Errorf(reason.InvalidInput, "the reason for the call has %d characters, and at most %d are taken", n, MaxReason)
	}
	return tool.RedactText(strings.ToValidUTF8(said, "\uFFFD")), nil
}

// reasonGiven is the error of an ask whose policies want a reason of the requester
// (@ask_reason), and that has none: nobody is asked then.
func (a *authorization) reasonGiven() error {
	question := a.verdict.AskReason()
	if question == "" || a.request.RequesterReason != "" {
		return nil
	}
	err := reason.Errorf(reason.RequestReasonNeeded, "before people are asked, the requester has to say why: %s", question).WithField("question", question)
	if a.sub.ReasonBy != "" {
		err = err.WithRemedy("%s", a.sub.ReasonBy)
	}
	return err
}
