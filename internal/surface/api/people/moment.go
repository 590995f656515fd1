package people

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// moment is a time, nil for none.
func moment(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
