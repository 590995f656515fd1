package sandbox

import (
	"strings"
	"testing"
)

func TestReserve(t *testing.T) {
	t.Parallel()
	const mib, gib = 1 << 20, 1 << 30
	for name, c := range map[string]struct {
		reserve       Reserve
		bounds, share Share
	}{
		"a service":                    {Reserve{}, Share{1500, 8 * gib}, Share{1500 - 187, 7 * gib}},
		"a machine":                    {Reserve{}, Share{192_000, 64 * gib}, Share{192_000 - 512, 63 * gib}},
		"little: at least half":        {Reserve{}, Share{100, 300 * mib}, Share{50, 150 * mib}},
		"set by the operator":          {Reserve{100, gib}, Share{1500, 8 * gib}, Share{1400, 7 * gib}},
		"more than there is":           {Reserve{5000, 64 * gib}, Share{1500, 8 * gib}, Share{32, 64 * mib}},
		"nothing is known to bound it": {Reserve{}, Share{}, Share{}},
	} {
		if got := c.reserve.Of(c.bounds); got != c.share {
			t.Errorf("%s: %+v, want %+v", name, got, c.share)
		}
	}
}

// All concurrent runs and palyrad fit into the resources if only single processes are limited.
func TestConcurrentRunsFit(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for name, c := range map[string]struct {
		room  Room
		share Share
		want  int
	}{
		"memory decides":     {Room{}, Share{100_000, 23 * gib}, 11},
		"processes decide":   {Room{}, Share{5000, 640 * gib}, 4},
		"at least two":       {Room{}, Share{1300, gib}, 2},
		"at most 32":         {Room{}, Share{1_000_000, 1 << 40}, 32},
		"nothing is known":   {Room{}, Share{}, 32},
		"the operator's":     {Room{Concurrent: 7}, Share{1300, gib}, 7},
		"smaller limits":     {Room{Each: Limits{Processes: 100, Memory: gib / 4}}, Share{1300, 2 * gib}, 8},
		"larger than shares": {Room{Each: Limits{Memory: 4 * gib}}, Share{1_000_000, gib}, 2},
	} {
		n := c.room.AtOnce(c.share)
		if n != c.want {
			t.Errorf("%s: %d at once, want %d", name, n, c.want)
		}
		if part := c.share.Part(n); part.Processes*n > c.share.Processes || part.Memory*int64(n) > c.share.Memory {
			t.Errorf("%s: %d parts of %+v are more than %+v", name, n, part, c.share)
		}
	}
}

func TestScarceResources(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for name, c := range map[string]struct {
		room   Room
		bounds Share
		want   string
	}{
		"two fit":                 {Room{}, Share{3000, 8 * gib}, ""},
		"two do not":              {Room{}, Share{1500, 8 * gib}, "2 programs at once, of 1024 processes each, need 2048, but palyrad can give them only 1313 of its own 1500"},
		"as many as the operator": {Room{Concurrent: 8}, Share{20_000, 8 * gib}, "8 programs at once, of 2048 MiB each, need 16384 MiB, but palyrad can give them only 7168 of its own 8192 MiB"},
		"smaller limits":          {Room{Concurrent: 8, Each: Limits{Processes: 100, Memory: gib / 2}}, Share{1500, 8 * gib}, ""},
		"nothing is known":        {Room{Concurrent: 8}, Share{}, ""},
	} {
		if got := c.room.Tight(c.bounds); (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
