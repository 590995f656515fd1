package model

import (
	"math"
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	date := func(after time.Duration) string { return now.Add(after).Format(http.TimeFormat) }
	stamp := func(after time.Duration) string { return now.Add(after).Format(time.RFC3339) }
	for name, c := range map[string]struct {
		headers map[string]string
		status  int
		want    time.Duration
	}{
		"nothing":            {want: 0},
		"seconds":            {headers: map[string]string{"Retry-After": "12"}, want: 12 * time.Second},
		"fraction":           {headers: map[string]string{"Retry-After": "0.5"}, want: 500 * time.Millisecond},
		"milliseconds":       {headers: map[string]string{"Retry-After-Ms": "250", "Retry-After": "1"}, want: 250 * time.Millisecond},
		"date":               {headers: map[string]string{"Retry-After": date(30 * time.Second)}, want: 30 * time.Second},
		"past date":          {headers: map[string]string{"Retry-After": date(-time.Hour)}, want: 0},
		"another clock":      {headers: map[string]string{"Retry-After": date(time.Hour), "Date": date(time.Hour - 5*time.Second)}, want: 5 * time.Second},
		"negative":           {headers: map[string]string{"Retry-After": "-3"}, want: 0},
		"no number":          {headers: map[string]string{"Retry-After": "NaN"}, want: 0},
		"too large":          {headers: map[string]string{"Retry-After": "1e300"}, want: math.MaxInt64},
		"anthropic":          {headers: map[string]string{"anthropic-ratelimit-tokens-reset": stamp(9 * time.Second)}, want: 9 * time.Second},
		"openai":             {headers: map[string]string{"x-ratelimit-reset-requests": "1m2s"}, want: 62 * time.Second},
		"openai, short":      {headers: map[string]string{"x-ratelimit-reset-tokens": "20ms"}, want: 20 * time.Millisecond},
		"not for overload":   {headers: map[string]string{"x-ratelimit-reset-requests": "1m2s"}, status: 529, want: 0},
		"the one used up":    {headers: map[string]string{"x-ratelimit-reset-requests": "9s", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-tokens": "1s", "x-ratelimit-remaining-tokens": "5"}, want: 9 * time.Second},
		"all that are":       {headers: map[string]string{"x-ratelimit-reset-requests": "9s", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-tokens": "11s", "x-ratelimit-remaining-tokens": "0"}, want: 11 * time.Second},
		"none says":          {headers: map[string]string{"x-ratelimit-reset-requests": "9s", "x-ratelimit-reset-tokens": "2s"}, want: 2 * time.Second},
		"retry-after counts": {headers: map[string]string{"x-ratelimit-reset-requests": "9s", "Retry-After": "3"}, want: 3 * time.Second},
		"reset in the past":  {headers: map[string]string{"anthropic-ratelimit-requests-reset": stamp(-time.Minute)}, want: 0},
	} {
		h := make(http.Header)
		for k, v := range c.headers {
			h.Set(k, v)
		}
		if c.status == 0 {
			c.status = http.StatusTooManyRequests
		}
		if got := waitAsked(h, c.status, now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
