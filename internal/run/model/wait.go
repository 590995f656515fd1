package model

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// waitAsked is how long a provider asks to wait before the next attempt, 0 if it
// does not say. It reads retry-after-ms, Retry-After (RFC 9110, 10.2.3) and, with
// status 429, when the rate limits are reset (anthropic-ratelimit-*-reset is a time
// of RFC 3339, x-ratelimit-reset-* a duration such as 6m0s). When the provider sends
// a Date, times are compared with that and not with this machine's clock.
func waitAsked(h http.Header, status int, now time.Time) time.Duration {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	if wait, ok := number(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return wait
	}
	if wait, ok := number(h.Get("Retry-After"), time.Second); ok {
		return wait
	}
	if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		return max(0, at.Sub(now))
	}
	if status != http.StatusTooManyRequests {
		return 0
	}
	return untilReset(h, now)
}

// limits are the headers that tell when a rate limit is reset, with those that
// tell what is left of it.
var limits = []struct{ reset, remaining string }{
	{"Anthropic-Ratelimit-Requests-Reset", "Anthropic-Ratelimit-Requests-Remaining"},
	{"Anthropic-Ratelimit-Tokens-Reset", "Anthropic-Ratelimit-Tokens-Remaining"},
	{"Anthropic-Ratelimit-Input-Tokens-Reset", "Anthropic-Ratelimit-Input-Tokens-Remaining"},
	{"Anthropic-Ratelimit-Output-Tokens-Reset", "Anthropic-Ratelimit-Output-Tokens-Remaining"},
	{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Remaining-Requests"},
	{"X-Ratelimit-Reset-Tokens", "X-Ratelimit-Remaining-Tokens"},
}

// untilReset is the time until every limit that is used up is reset. When none
// says that it is, the first to be reset is worth an attempt.
func untilReset(h http.Header, now time.Time) time.Duration {
	var usedUp, first time.Duration
	for _, limit := range limits {
		wait, ok := resetIn(h.Get(limit.reset), now)
		if !ok {
			continue
		}
		if first == 0 || wait < first {
			first = wait
		}
		if h.Get(limit.remaining) == "0" {
			usedUp = max(usedUp, wait)
		}
	}
	if usedUp > 0 {
		return usedUp
	}
	return first
}

func resetIn(value string, now time.Time) (time.Duration, bool) {
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return at.Sub(now), at.After(now)
	}
	if wait, err := time.ParseDuration(value); err == nil {
		return wait, wait > 0
	}
	return number(value, time.Second)
}

// number reads a positive decimal number of units. What is too large for a
// Duration is the largest one.
func number(value string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || math.IsNaN(n) || n <= 0 {
		return 0, false
	}
	if n >= float64(math.MaxInt64)/float64(unit) {
		return math.MaxInt64, true
	}
	return time.Duration(n * float64(unit)), true
}
