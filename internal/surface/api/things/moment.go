package things

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// moment converts a time to a timestamp, nil for the zero time.
func moment(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
