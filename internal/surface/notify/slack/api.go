package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/canonical"
	"palyra/internal/core/text"
	"palyra/internal/surface/notify"
)

// maxResponse is the highest size of a response of the Web API, in bytes.
const maxResponse = 1 << 20

// permanentErrors are permanent errors: they depend on the message or the channel, and a retry
// cannot succeed.
var permanentErrors = map[string]bool{
	"channel_not_found": true, "is_archived": true, "msg_too_long": true, "invalid_blocks": true, "invalid_arguments": true, "message_not_found": true,
	"cant_update_message": true, "edit_window_closed": true,
}

// call calls a method of the Web API with a JSON body. It decodes the response to into, which
// may be nil.
func (s *Channel) call(ctx context.Context, method, token, run string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return notify.Permanent(fmt.Errorf("writing a request: %w", err))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.use.API+"/"+method, bytes.NewReader(text))
	if err != nil {
		return notify.Permanent(fmt.Errorf("making a request: %w", err))
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	return s.do(method, token, run, req, into)
}

// get calls a method that reads. Such methods do not accept JSON.
func (s *Channel) get(ctx context.Context, method string, query url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.use.API+"/"+method+"?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	return s.do(method, s.use.BotToken, ulid.Make().String(), req, into)
}

func (s *Channel) do(method, token, run string, req *http.Request, into any) error {
	ctx := req.Context()
	value, end, err := s.use.Lend(ctx, token, run, "Slack "+method)
	if err != nil {
		return fmt.Errorf("reading the secret %s: %w", token, err)
	}
	defer end()
	defer clear(value)
	req.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(value)))
	res, err := s.http.Do(req)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err
		}
		return fmt.Errorf("%s: %w", method, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("%s: reading the response: %w", method, err)
	}
	return read(method, res, answer, into)
}

func read(method string, res *http.Response, answer []byte, into any) error {
	if res.StatusCode != http.StatusOK {
		err := fmt.Errorf("%s: Slack returned status %d", method, res.StatusCode)
		if n, bad := strconv.Atoi(res.Header.Get("Retry-After")); bad == nil && n > 0 {
			return notify.RetryAfter(err, time.Duration(n)*time.Second)
		}
		return err
	}
	var outcome struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	if err := canonical.Read(answer, &outcome); err != nil {
		return fmt.Errorf("%s: the response is not valid JSON", method)
	}
	if !outcome.OK {
		err := fmt.Errorf("%s: Slack returned the error %q", method, text.Ellipsis(outcome.Error, 100))
		if permanentErrors[outcome.Error] {
			return notify.Permanent(err)
		}
		return err
	}
	if into == nil {
		return nil
	}
	if err := canonical.Read(answer, into); err != nil {
		return fmt.Errorf("%s: the response has an unexpected form", method)
	}
	return nil
}
