package main

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/surface/api"
)

// TestCompare: a page that differs, one that is missing and one that is not generated are reported.
//
// Not parallel: it changes the working directory.
func TestCompare(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Do(t, os.MkdirAll(directory, 0o755))
	for name, text := range map[string]string{"a.md": "a", "b.md": "b", "old.md": "x"} {
		must.Do(t, os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600))
	}
	err := compare(map[string]string{"a.md": "a", "b.md": "changed", "new.md": "n"})
	if err == nil || !strings.Contains(err.Error(), "b.md, new.md, old.md") {
		t.Errorf("compare: %v", err)
	}
	if err := compare(map[string]string{"a.md": "a", "b.md": "b", "old.md": "x"}); err != nil {
		t.Errorf("equal pages: %v", err)
	}
}

func TestSentence(t *testing.T) {
	t.Parallel()
	c := comments{
		"T.Port":  "Port is the port (docs/egress.md).\nIt has a range.\n",
		"T.Run":   "Run runs it; docs/reference/events.md lists the events.\n",
		"T.Wrong": "The port.\n",
	}
	for name, want := range map[string]string{
		"T.Port": "The port ([egress](../egress.md)). It has a range.",
		"T.Run":  "Runs it; [events](events.md) lists the events.",
	} {
		if got, err := c.sentence(name); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"T.Wrong", "T.None"} {
		if got, err := c.sentence(name); err == nil {
			t.Errorf("%s: %q without an error", name, got)
		}
	}
}

// keys lists the keys of a configuration type, keys of list elements included.
func keys(prefix string, t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		name := prefix + field.Tag.Get("toml")
		switch inner := tableType(field.Type); {
		case field.Tag.Get("toml") == "-":
		case inner != nil:
			names = append(names, keys(name+".", inner)...)
		default:
			names = append(names, name)
		}
	}
	return names
}

// TestEveryKeyHasARow: each key has one row with a default and a description.
//
// Not parallel: it changes the working directory.
func TestEveryKeyHasARow(t *testing.T) {
	t.Chdir("../..")
	text := must.Get(configuration())(t)
	all := keys("", reflect.TypeFor[config.Config]())
	if len(all) < 150 {
		t.Fatalf("only %d keys", len(all))
	}
	for _, key := range all {
		_, row, found := strings.Cut(text, "\n| `"+key+"` | ")
		row, _, _ = strings.Cut(row, "\n")
		if cells := strings.Split(row, " | "); !found || len(cells) != 2 || cells[0] == "" || len(cells[1]) < 10 {
			t.Errorf("%s: %q", key, row)
		}
		if strings.Count(text, "\n| `"+key+"` | ") != 1 {
			t.Errorf("%s has several rows", key)
		}
	}
}

// TestRoles compares roles of permissions with values that are known from elsewhere.
func TestRoles(t *testing.T) {
	t.Parallel()
	f := must.Get(newRoleFinder())(t)
	for p, want := range map[access.Permission]string{
		access.PermDaemonStatus:     anyMember,
		access.PermApprovalDecide:   "owner, admin, operator",
		access.PermAccessWriteOwner: "owner",
		access.PermToolCall:         "owner, admin, operator, developer, agent",
		"no.such":                   "",
	} {
		if got := f.who(p); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
}

// TestMethodTable: the table has a row for each method and permission, and changes with them.
func TestMethodTable(t *testing.T) {
	t.Parallel()
	f := must.Get(newRoleFinder())(t)
	const call = "/palyra.v1.GatewayService/CallTool"
	methods := maps.Collect(api.Methods())
	text := f.methodTable(methods)
	for procedure := range methods {
		if !strings.Contains(text, "\n| `"+strings.TrimPrefix(procedure, "/")+"` | ") {
			t.Errorf("%s has no row", procedure)
		}
	}
	for _, p := range access.Permissions {
		if !strings.Contains(f.permissionTable(), "\n| `"+string(p)+"` | ") {
			t.Errorf("%s has no row", p)
		}
	}
	row := methods[call]
	row.Permission = access.PermAccessRead
	methods[call] = row
	if f.methodTable(methods) == text {
		t.Error("the table does not depend on the permission")
	}
}
