package client_test

import (
	"errors"
	"testing"

	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
)

func TestCollect(t *testing.T) {
	t.Parallel()
	const stored = 1200
	for _, c := range []struct {
		limit, want int
		more        bool
	}{{0, stored, false}, {1, 1, true}, {500, 500, true}, {700, 700, true}, {stored, stored, false}, {5000, stored, false}} {
		given := 0
		all, more, err := client.Collect(c.limit, func(size int32) ([]printer.Record, bool, error) {
			if size < 1 || size > 500 {
				t.Errorf("limit %d: asked for %d", c.limit, size)
			}
			n := min(int(size), stored-given)
			given += n
			return make([]printer.Record, n), given < stored, nil
		})
		if err != nil || len(all) != c.want || more != c.more {
			t.Errorf("limit %d: %d records, more %v, %v", c.limit, len(all), more, err)
		}
	}
	broken := errors.New("broken")
	if _, _, err := client.Collect(0, func(int32) ([]printer.Record, bool, error) { return nil, true, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
