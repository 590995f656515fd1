package model

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/reason"
)

// slow is a transport that responds after a delay with a body whose parts are also delayed. It
// ends with the request.
type slow struct {
	head  time.Duration
	parts []time.Duration
}

func (s *slow) RoundTrip(req *http.Request) (*http.Response, error) {
	if !sleep(req.Context(), s.head) {
		return nil, req.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: &slowBody{s.parts, func(d time.Duration) error {
		if !sleep(req.Context(), d) {
			return req.Context().Err()
		}
		return nil
	}}}, nil
}

type slowBody struct {
	parts []time.Duration
	sleep func(time.Duration) error
}

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.parts) == 0 {
		return 0, io.EOF
	}
	if err := b.sleep(b.parts[0]); err != nil {
		return 0, err
	}
	b.parts = b.parts[1:]
	return copy(p, "x\n"), nil
}

func (b *slowBody) Close() error { return nil }

func TestStalledReads(t *testing.T) {
	t.Parallel()
	const idle = time.Minute
	for name, c := range map[string]struct {
		slow    slow
		reader  time.Duration
		stalled bool
		after   time.Duration
	}{
		"steady":           {slow: slow{head: 59 * time.Second, parts: []time.Duration{59 * time.Second, 59 * time.Second}}, after: 177 * time.Second},
		"no answer":        {slow: slow{head: time.Hour}, stalled: true, after: idle},
		"no first event":   {slow: slow{parts: []time.Duration{time.Hour}}, stalled: true, after: idle},
		"no second":        {slow: slow{parts: []time.Duration{0, time.Hour}}, stalled: true, after: idle},
		"a slow reader":    {slow: slow{parts: []time.Duration{time.Second, time.Second}}, reader: time.Hour, after: 2*time.Hour + 2*time.Second},
		"slow, and stalls": {slow: slow{parts: []time.Duration{0, time.Hour}}, reader: time.Hour, stalled: true, after: time.Hour + idle},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := readSlowly(t.Context(), &guard{next: &c.slow, idle: idle}, c.reader)
				if errors.Is(err, errStalled) != c.stalled || !c.stalled && err != nil {
					t.Errorf("got %v", err)
				}
				var failed *Transient
				if c.stalled && !errors.As(Failure(t.Context(), Key{}, err), &failed) {
					t.Errorf("a stall is not worth a retry: %v", err)
				}
				if took := time.Since(began); took != c.after {
					t.Errorf("took %s, want %s", took, c.after)
				}
			})
		})
	}
}

func readSlowly(ctx context.Context, transport http.RoundTripper, each time.Duration) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://model.test/", nil)
	if err != nil {
		return err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	for buffer := make([]byte, 10); ; time.Sleep(each) {
		if _, err := res.Body.Read(buffer); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestEventSize(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		text string
		fits bool
	}{
		"many events":  {strings.Repeat("data: "+line+"\n\n", 20), true},
		"CRLF":         {strings.Repeat("data: "+line+"\r\n\r\n", 20), true},
		"a long line":  {strings.Repeat(line, 9), false},
		"many lines":   {strings.Repeat("data: "+line+"\n", 9), false},
		"just fits":    {strings.Repeat(line, 8), true},
		"only newline": {strings.Repeat("\n", 9<<20), true},
	} {
		body := &stream{rest: io.NopCloser(strings.NewReader(c.text)), watch: time.NewTimer(time.Hour), idle: time.Hour, cause: func() error { return nil }}
		_, err := io.Copy(io.Discard, body)
		if (err == nil) != c.fits || err != nil && reason.Of(err) != reason.ModelInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStreamSize: a stream of comments, which are not stored, also ends at the limit.
func TestStreamSize(t *testing.T) {
	t.Parallel()
	body := &stream{
		rest: io.NopCloser(endless(": " + strings.Repeat("x", 4<<10) + "\n\n")), watch: time.NewTimer(time.Hour), idle: time.Hour, cause: func() error { return nil },
	}
	n, err := io.Copy(io.Discard, body)
	if reason.Of(err) != reason.ModelInvalid || n > MaxStream {
		t.Errorf("after %d bytes: %v", n, err)
	}
}

// endless repeats a text.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e) <= len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}
