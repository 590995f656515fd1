package text

import "testing"

func TestPlural(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		n    int
		one  string
		want string
	}{{0, "call", "0 calls"}, {1, "call", "1 call"}, {2, "call", "2 calls"}, {1, "retry", "1 retry"}, {2, "retry", "2 retries"}, {2, "day", "2 days"}, {3, "key", "3 keys"}, {-1, "hour", "-1 hours"}} {
		if got := Plural(row.n, row.one); got != row.want {
			t.Errorf("Of(%d, %q) = %q, want %q", row.n, row.one, got, row.want)
		}
	}
}
