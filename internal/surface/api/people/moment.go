package people

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// moment converts a time; the zero time becomes nil.
func moment(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
