package builtin

import (
	"context"
	"testing"

	"palyra/internal/reason"
	"palyra/internal/tool"
)

// TestProcessTurns: no more programs than the most run at once, and whoever
// waits gives up with its call.
func TestProcessTurns(t *testing.T) {
	for most, refused := range map[int]bool{1: true, 2: false} { // the second is the control
		b, r, _ := processBench(t, func(c *Config) { c.Process.MaxConcurrent = most })
		in := object{"argv": []string{"git"}}
		var second tool.Report
		r.during = func() {
			r.during = nil
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if refused {
				cancel() // nobody will make room
			}
			second, _ = b.call(ctx, "process.run", in)
		}
		first, _ := b.call(context.Background(), "process.run", in)
		if first.Outcome != tool.Succeeded {
			t.Errorf("the first of %d: %+v", most, first)
		}
		if got := reason.Code(second.Reason) == reason.Cancelled; got != refused || refused && len(r.specs) != 1 {
			t.Errorf("the second of %d: %+v; %d programs ran", most, second, len(r.specs))
		}
		if third, _ := b.call(context.Background(), "process.run", in); third.Outcome != tool.Succeeded {
			t.Errorf("after them, of %d: %+v", most, third)
		}
	}
}
