package builtin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"palyra/internal/canonical"
	"palyra/internal/reason"
	"palyra/internal/tool"
)

// decode reads the input of a proposal, which was checked against the schema.
func decode[T any](input json.RawMessage) (T, error) {
	var in T
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return in, reason.Errorf(reason.InvalidInput, "reading input: %w", err)
	}
	return in, nil
}

// begin returns a report with what is known before a call runs.
func begin(version string) tool.Report {
	return tool.Report{
		Executor:    tool.ExecutorInfo{Name: tool.Builtin, Version: version, Tier: "builtin"},
		Enforcement: tool.Enforcement{Level: "none", Requested: []string{}, Applied: []string{}, Downgrades: []string{}},
		Egress:      tool.Egress{Mode: "strict", Allowed: []string{}, Observed: []tool.Connection{}},
		StartedAt:   time.Now().UTC(),
	}
}

// succeed ends a report with a result.
func succeed(r tool.Report, result any) tool.Report {
	text, err := canonical.Marshal(result)
	if err != nil {
		return fail(context.Background(), r, reason.Errorf(reason.Internal, "encoding the result: %w", err))
	}
	r.Outcome, r.Result = tool.Succeeded, text
	return finish(r)
}

func finish(r tool.Report) tool.Report {
	r.FinishedAt = time.Now().UTC()
	if r.Usage.Wall == 0 {
		r.Usage.Wall = r.FinishedAt.Sub(r.StartedAt)
	}
	return r
}

// failureResult is what a model reads of a call that failed.
type failureResult struct {
	Error failureText `json:"error"`
}

type failureText struct {
	Reason  reason.Code `json:"reason"`
	Message string      `json:"message"`
	Remedy  string      `json:"remedy"`
}

// fail ends a report with an error and a result that says it.
func fail(ctx context.Context, r tool.Report, err error) tool.Report {
	r, text := failure(ctx, r, err)
	result, encodeErr := canonical.Marshal(failureResult{text})
	if encodeErr == nil {
		r.Result = result
	}
	return finish(r)
}

// failure sets outcome and reason, without a result.
func failure(ctx context.Context, r tool.Report, err error) (tool.Report, failureText) {
	known := because(ctx, err)
	r.Reason, r.Message, r.Remedy = string(known.Code), known.Message, known.NextStep()
	if known.Code == reason.Internal {
		r.Cause = err
	}
	switch known.Code {
	case reason.TimedOut:
		r.Outcome = tool.TimedOut
	case reason.Cancelled, reason.GatewayFrozen, reason.ShuttingDown:
		r.Outcome = tool.Stopped
	default:
		r.Outcome = tool.Failed
	}
	return r, failureText{Reason: known.Code, Message: r.Message, Remedy: r.Remedy}
}

// because finds the reason of an error. A context that ended explains every
// error that came of it.
func because(ctx context.Context, err error) *reason.Error {
	if ctx.Err() != nil {
		var cause *reason.Error
		switch {
		case errors.As(context.Cause(ctx), &cause):
			return cause
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return reason.Errorf(reason.TimedOut, "the call ran into its deadline")
		}
		return reason.Errorf(reason.Cancelled, "the call was cancelled")
	}
	var known *reason.Error
	if errors.As(err, &known) {
		return known
	}
	return reason.Fault(err)
}

// The values of a field named encoding.
const (
	encodingText   = "utf-8"
	encodingBase64 = "base64"
)

// body is bytes in a result: as text when they are text, else as base64.
type body struct {
	Content  string `json:"content"`
	Encoding string `json:"encoding"`
}

// asBody encodes bytes. When data was cut, a character that the cut went
// through does not make it binary: it is left out.
func asBody(data []byte, cut bool) body {
	if cut {
		if n := len(data); n > 0 {
			for back := 1; back <= min(utf8.UTFMax-1, n); back++ {
				if utf8.RuneStart(data[n-back]) {
					if !utf8.FullRune(data[n-back:]) {
						data = data[:n-back]
					}
					break
				}
			}
		}
	}
	return encodeAs(data, isText(data))
}

func isText(data []byte) bool {
	return utf8.Valid(data) && !strings.ContainsRune(string(data), 0)
}

func encodeAs(data []byte, text bool) body {
	if text {
		return body{string(data), encodingText}
	}
	return body{base64.StdEncoding.EncodeToString(data), encodingBase64}
}

// given reads the bytes that a call passes either as text or as base64.
func given(text, encoded *string, name string) ([]byte, error) {
	switch {
	case text != nil && encoded != nil:
		return nil, reason.Errorf(reason.InvalidInput, "input has both %s and %s_base64; send one", name, name)
	case text != nil:
		return []byte(*text), nil
	case encoded == nil:
		return nil, nil
	}
	data, err := base64.StdEncoding.Strict().DecodeString(*encoded)
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "input at /%s_base64 is not base64 (RFC 4648 section 4): %w", name, err)
	}
	return data, nil
}

// subjectPart writes text so that it cannot be taken for two parts of a
// subject.
func subjectPart(s string) string {
	return strings.NewReplacer("%", "%25", ",", "%2C", "\n", "%0A", "\r", "%0D", "\t", "%09").Replace(s)
}
