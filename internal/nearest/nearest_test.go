package nearest

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	t.Parallel()
	names := []string{"path", "content", "mode", "workspace"}
	tests := map[string]string{
		"pth": "path", "pathh": "path", "apth": "path", "contnet": "content",
		"workspac": "workspace", "x": "", "zzzz": "", strings.Repeat("a", 200): "",
	}
	for word, want := range tests {
		if got := Of(word, names); got != want {
			t.Errorf("Of(%.20q) = %q, want %q", word, got, want)
		}
	}
}
