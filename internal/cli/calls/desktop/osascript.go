package desktop

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// osascript shows notifications on macOS through the program of this name, because only
// applications with a bundle can show them directly. Notifications can be neither replaced nor
// removed.
type osascript struct{ program string }

// Show implements Desktop. The texts are arguments of the script and never part of it. The title is
// fixed and comes first, so that no text is interpreted as an option.
func (o osascript) Show(ctx context.Context, title, body string) error {
	cmd := exec.CommandContext(ctx, o.program,
		"-e", "on run argv", "-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run", title, body)
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running osascript: %w", err)
	}
	return nil
}

// Clear implements Desktop.
func (osascript) Clear(context.Context) error { return nil }

// Close implements Desktop.
func (osascript) Close() {}
