package model_test

import (
	"regexp"
	"strings"
	"testing"

	"palyra/internal/run/model"
)

var allowedName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func request(tools, called []string) model.Request {
	var r model.Request
	for _, name := range tools {
		r.Tools = append(r.Tools, model.Tool{Name: name})
	}
	for _, name := range called {
		r.Messages = append(r.Messages, model.Message{Role: model.Assistant, Calls: []model.Call{{Tool: name}}})
	}
	return r
}

func TestNames(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{
		"fs.read": "fs_read", "github/create_issue": "github_create_issue", "plain-name_1": "plain-name_1", "ä": "__", "": "_",
	} {
		n := model.NewNames(request([]string{tool}, nil))
		if got := n.Wire(tool); got != want || n.Ours(got) != tool {
			t.Errorf("%q is %q, and back %q", tool, got, n.Ours(got))
		}
	}
	n := model.NewNames(request([]string{"fs.read", "fs/read", "fs_read"}, []string{"fs-read", "fs read"}))
	if n.Wire("fs_read") != "fs_read" {
		t.Errorf("a name that is allowed as it is became %q", n.Wire("fs_read"))
	}
	if got := n.Ours("fs.read"); got != "fs.read" {
		t.Errorf("a name that is not on offer became %q", got)
	}
	if got := n.Ours(n.Wire("fs read")); got != n.Wire("fs read") {
		t.Errorf("a tool that is no longer on offer came back as %q", got)
	}
}

func FuzzNames(f *testing.F) {
	f.Add("fs.read,fs/read,fs_read", "fs read,x")
	f.Add(strings.Repeat("a", 70)+","+strings.Repeat("a", 64)+","+strings.Repeat("a", 64)+".", "")
	f.Fuzz(func(t *testing.T, offered, called string) {
		tools, others := strings.Split(offered, ","), strings.Split(called, ",")
		n := model.NewNames(request(tools, others))
		seen := make(map[string]string)
		for _, tool := range append(tools, others...) {
			name := n.Wire(tool)
			if !allowedName.MatchString(name) {
				t.Fatalf("%q is called %q", tool, name)
			}
			if other, ok := seen[name]; ok && other != tool {
				t.Fatalf("%q and %q are both called %q", tool, other, name)
			}
			seen[name] = tool
		}
		for _, tool := range tools {
			if got := n.Ours(n.Wire(tool)); got != tool {
				t.Fatalf("%q came back as %q", tool, got)
			}
		}
	})
}
