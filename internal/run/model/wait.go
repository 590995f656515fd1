package model

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// waitAsked returns the delay that a provider requests before the next attempt, 0 if
// unspecified. It reads retry-after-ms, Retry-After (RFC 9110, 10.2.3) and, with status 429,
// the reset times of the rate limits. anthropic-ratelimit-*-reset is a time of RFC 3339,
// x-ratelimit-reset-* a duration such as 6m0s. If the provider sends a Date, times are compared
// with it instead of this machine's clock.
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

// limits are the headers with the reset time of a rate limit, and with its remaining amount.
var limits = []struct{ reset, remaining string }{
	{"Anthropic-Ratelimit-Requests-Reset", "Anthropic-Ratelimit-Requests-Remaining"},
	{"Anthropic-Ratelimit-Tokens-Reset", "Anthropic-Ratelimit-Tokens-Remaining"},
	{"Anthropic-Ratelimit-Input-Tokens-Reset", "Anthropic-Ratelimit-Input-Tokens-Remaining"},
	{"Anthropic-Ratelimit-Output-Tokens-Reset", "Anthropic-Ratelimit-Output-Tokens-Remaining"},
	{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Remaining-Requests"},
	{"X-Ratelimit-Reset-Tokens", "X-Ratelimit-Remaining-Tokens"},
}

// untilReset returns the time until every exhausted limit is reset. If none is marked as exhausted,
// it returns the earliest reset.
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

// number parses a positive decimal number of units. A value too large for a Duration becomes the
// largest one.
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
