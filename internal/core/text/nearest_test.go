package text

import (
	"fmt"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"path", "content", "mode", "workspace"}
	tests := map[string]string{
		"pth": "path", "pathh": "path", "apth": "path", "contnet": "content",
		"workspac": "workspace", "x": "", "zzzz": "", strings.Repeat("a", 200): "",
	}
	for word, want := range tests {
		if got := Nearest(word, names); got != want {
			t.Errorf("Of(%.20q) = %q, want %q", word, got, want)
		}
	}
}

func TestThree(t *testing.T) {
	t.Parallel()
	var many []string
	for n := range 100 {
		many = append(many, fmt.Sprintf("claude/Tool%d", n))
	}
	many = append(many, "fs.read", "fs.write", "fs.search")
	for word, want := range map[string]string{"fs.erase": "fs.read fs.write fs.search", "fs": "fs.read fs.write fs.search", "": "fs.read fs.write fs.search"} {
		got := NearestThree(word, many)
		if len(got) != 3 || strings.Join(got, " ") != want {
			t.Errorf("Three(%q) = %q, want %q", word, got, want)
		}
	}
	if got := NearestThree("x", []string{"a", "b"}); len(got) != 2 {
		t.Errorf("%q", got)
	}
	if many[0] != "claude/Tool0" {
		t.Error("the names were changed")
	}
}
