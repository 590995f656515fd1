package people

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// TestHeartbeatOfPages: the heartbeat that pages expect matches the one that is sent. A gateway
// that stops answering is displayed as stale within five seconds, and one that answers is not.
func TestHeartbeatOfPages(t *testing.T) {
	t.Parallel()
	page := string(must.Get(os.ReadFile("../../../../web/src/live/connection.ts"))(t))
	if want := fmt.Sprintf("export const heartbeat = %d_000;", heartbeat/time.Second); !strings.Contains(page, want) {
		t.Errorf("the page does not have %q", want)
	}
	if heartbeat > 2*time.Second {
		t.Errorf("a heartbeat every %s: two of them and a margin take more than five seconds", heartbeat)
	}
}
