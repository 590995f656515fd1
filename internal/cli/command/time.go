package command

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"palyra/internal/core/lazyregexp"
)

var dayForm = lazyregexp.New(`^(\d{1,3})d$`)

// ParseSpan is time.ParseDuration with days.
func ParseSpan(s string) (time.Duration, error) {
	if m := dayForm.FindStringSubmatch(s); m != nil {
		var days int
		if _, err := fmt.Sscan(m[1], &days); err == nil {
			return time.Duration(days) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, Usage("%q is not a valid duration; use a form like 30m, 2h or 3d", s)
	}
	return d, nil
}

// ParseMoment parses a time, or a duration before now; "" is none.
func ParseMoment(flag, s string, now time.Time) (*timestamppb.Timestamp, error) {
	if s == "" {
		return nil, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return timestamppb.New(t), nil
	}
	if d, err := ParseSpan(s); err == nil && d >= 0 {
		return timestamppb.New(now.Add(-d)), nil
	}
	return nil, Usage("--%s %q: want a time such as 2026-01-31T15:00:00Z or a duration such as 24h", flag, s)
}

// ParseEnd parses a time, or a duration from now; "" is none.
func ParseEnd(flag, s string, now time.Time) (*timestamppb.Timestamp, error) {
	if s == "" {
		return nil, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return timestamppb.New(t), nil
	}
	if d, err := ParseSpan(s); err == nil && d > 0 {
		return timestamppb.New(now.Add(d)), nil
	}
	return nil, Usage("--%s %q: want a time such as 2026-01-31T15:00:00Z or a duration such as 90d", flag, s)
}
