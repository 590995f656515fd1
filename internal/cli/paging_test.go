package cli

import (
	"errors"
	"testing"
)

func TestCollect(t *testing.T) {
	const stored = 1200
	for _, c := range []struct {
		limit, want int
		more        bool
	}{{0, stored, false}, {1, 1, true}, {500, 500, true}, {700, 700, true}, {stored, stored, false}, {5000, stored, false}} {
		given := 0
		all, more, err := collect(c.limit, func(size int32) ([]record, bool, error) {
			if size < 1 || size > 500 {
				t.Errorf("limit %d: asked for %d", c.limit, size)
			}
			n := min(int(size), stored-given)
			given += n
			return make([]record, n), given < stored, nil
		})
		if err != nil || len(all) != c.want || more != c.more {
			t.Errorf("limit %d: %d records, more %v, %v", c.limit, len(all), more, err)
		}
	}
	broken := errors.New("broken")
	if _, _, err := collect(0, func(int32) ([]record, bool, error) { return nil, true, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
