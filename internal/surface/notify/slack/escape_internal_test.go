package slack

import (
	"strings"
	"testing"
)

// TestEscape: escaped text contains no markup and no invisible characters.
func TestEscape(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"<!channel>", "<@U123>", "<https://evil.test|bank>", "*now*", "_now_", "~now~", "`rm`", "a\u202eb", "\x1b[2J", "&lt;!channel&gt;",
	} {
		got := escape(text)
		if strings.ContainsAny(got, "<>*_~`\u202e\x1b") {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	// Text that is already escaped is escaped again, so that Slack does not unescape it to markup.
	if got := escape("&lt;!channel&gt;"); got != "&amp;lt;!channel&amp;gt;" {
		t.Errorf("escaped twice: %q", got)
	}
	if got := escape("make test, please"); got != "make test, please" {
		t.Errorf("plain text becomes %q", got)
	}
}
