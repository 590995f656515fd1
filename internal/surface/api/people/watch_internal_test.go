package people

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// TestHeartbeatOfPages: pages expect the heartbeat as often as it is sent, so that they show a
// gateway that stopped answering within five seconds, and none that answers.
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
