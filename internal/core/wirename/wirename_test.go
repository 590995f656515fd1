package wirename_test

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"palyra/internal/core/wirename"
)

var allowed = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func TestTable(t *testing.T) {
	t.Parallel()
	long := "a/" + strings.Repeat("b", 80)
	longer := long + "c"
	table := wirename.NewTable([]string{"fs.read", "plain-1", "fs.read"}, []string{"a_b/c", "github/create_issue", "fs/read", "a/b_c", "", long, longer}, 51)
	for tool, want := range map[string]string{"fs.read": "fs_read", "github/create_issue": "github_create_issue", "plain-1": "plain-1", "": "_"} {
		name, ok := table.Wire(tool)
		if back, known := table.Ours(name); name != want || !ok || !known || back != tool {
			t.Errorf("%q is %q, and back %q", tool, name, back)
		}
	}
	// A name that would shadow another is refused; if two others collide, both are refused.
	for _, tool := range []string{"fs/read", "a_b/c", "a/b_c"} {
		if name, ok := table.Wire(tool); ok {
			t.Errorf("%s is called %q", tool, name)
		}
	}
	if tool, ok := table.Ours("a_b_c"); ok {
		t.Errorf("a_b_c is %q", tool)
	}
	if got := table.Refused(); !maps.Equal(got, map[string]string{"fs/read": "fs.read", "a_b/c": "a/b_c", "a/b_c": "a_b/c"}) {
		t.Errorf("refused %v", got)
	}
	a, _ := table.Wire(long)
	b, _ := table.Wire(longer)
	if len(a) != 51 || len(b) != 51 || a == b {
		t.Errorf("long names are %q and %q", a, b)
	}
	if _, ok := table.Ours("fs.read"); ok {
		t.Error("the gateway's own name is one of the wire")
	}
}

func FuzzTable(f *testing.F) {
	f.Add("fs.read,fs/read,fs_read,a b", 51)
	f.Add(strings.Repeat("a", 70)+","+strings.Repeat("a", 64), 64)
	f.Fuzz(func(t *testing.T, list string, most int) {
		if most < 16 || most > wirename.Most {
			return
		}
		tools := strings.Split(list, ",")
		table := wirename.NewTable(tools[:len(tools)/2], tools[len(tools)/2:], most)
		seen := make(map[string]string)
		for _, tool := range tools {
			name, ok := table.Wire(tool)
			if !ok {
				if _, refused := table.Refused()[tool]; !refused {
					t.Fatalf("%q has no name and is not refused", tool)
				}
				continue
			}
			if back, _ := table.Ours(name); !allowed.MatchString(name) || len(name) > most || back != tool {
				t.Fatalf("%q is %q, and back %q", tool, name, back)
			}
			if other, taken := seen[name]; taken && other != tool {
				t.Fatalf("%q and %q are both %q", tool, other, name)
			}
			seen[name] = tool
		}
	})
}
