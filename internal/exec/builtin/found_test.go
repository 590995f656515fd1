package builtin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// keeps is a policy that permits a call to read all files except the named ones, and records
// its queries.
type keeps struct {
	names []string
	asked []string
	// only, unless empty, is the tool that may not read the files.
	only string
}

func (k *keeps) mayRead(a tool.FileAccess) bool {
	k.asked = append(k.asked, a.Tool+" "+a.Facts.Path)
	return !slices.Contains(k.names, a.Facts.Path) || k.only != "" && k.only != a.Tool
}

// find calls a tool with a policy about the files that it finds.
func (b *bench) find(name string, in object, k *keeps) map[string]any {
	b.t.Helper()
	p := must.Get(b.propose(name, in))(b.t)
	plan := must.Get(b.tools[name].Plan(b.t.Context(), p))(b.t)
	report := b.run(b.t.Context(), tool.Call{Proposal: p, Plan: plan, MayRead: k.mayRead})
	if report.Outcome != tool.Succeeded {
		b.t.Fatalf("%+v", report)
	}
	return b.result(report)
}

// TestSearchLeavesOutWhatMayNotBeRead: a file that a rule protects from the tool, or from
// fs.read, is in no result. The number of omitted files discloses no content, because it does
// not depend on the pattern.
func TestSearchLeavesOutWhatMayNotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.write("a.txt", "needle one\n")
	b.write("private/key.txt", "needle two\n")
	b.write("z.txt", strings.Repeat("needle\n", 10))
	for _, only := range []string{"", fsReadName, fsSearchName} {
		for _, pattern := range []string{"needle", "two", "nothing", "."} {
			for _, most := range []int{1, 1000} {
				k := &keeps{names: []string{"private/key.txt"}, only: only}
				got := b.find(fsSearchName, object{"pattern": pattern, "max_matches": most}, k)
				if strings.Contains(fmt.Sprint(got), "key.txt") || strings.Contains(fmt.Sprint(got["matches"]), "two") {
					t.Errorf("%q, forbidden %q: %v", pattern, only, got)
				}
				if got["left_out"] != 1.0 {
					t.Errorf("%q, at most %d: left out %v", pattern, most, got["left_out"])
				}
			}
		}
	}
	// Control: a policy without forbidden files.
	if got := b.find(fsSearchName, object{"pattern": "two"}, &keeps{}); len(got["matches"].([]any)) != 1 || got["left_out"] != 0.0 {
		t.Errorf("%v", got)
	}
	// A single file that the call names is checked like one that is found.
	if got := b.find(fsSearchName, object{"pattern": "two", "path": "private/key.txt"}, &keeps{names: []string{"private/key.txt"}}); got["left_out"] != 1.0 {
		t.Errorf("%v", got)
	}
}

// TestSearchChecksBeforeItOpens: a file that replaces a checked file is checked itself.
func TestSearchChecksBeforeItOpens(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]func(b *bench){
		"another file": func(b *bench) { _ = os.Rename(filepath.Join(b.dir, "secret"), filepath.Join(b.dir, "a.txt")) },
		"a link": func(b *bench) {
			_ = os.Remove(filepath.Join(b.dir, "a.txt"))
			link(b.t, "secret", filepath.Join(b.dir, "a.txt"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.write("a.txt", "plain\n")
			b.write("secret", "secret needle\n")
			p := must.Get(b.propose(fsSearchName, object{"pattern": "needle"}))(t)
			plan := must.Get(b.tools[fsSearchName].Plan(t.Context(), p))(t)
			judged := 0
			report := b.run(context.Background(), tool.Call{Proposal: p, Plan: plan, MayRead: func(a tool.FileAccess) bool {
				if a.Facts.Path == "secret" {
					if judged++; judged == 1 {
						swap(b) // every file has been checked once
					}
					return false
				}
				return judged == 0 // the readable file has been replaced
			}})
			if strings.Contains(string(report.Result), "needle") {
				t.Errorf("%s", report.Result)
			}
		})
	}
}

// TestSearchReadsTheCheckedFile: a file that the call names is searched in its checked state,
// even if another file meanwhile has its name. A file that the search found must still be at
// its path.
func TestSearchReadsTheCheckedFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path  string
		turn  bool
		found int
	}{
		"named, turned": {"dir/a.txt", true, 1},
		"found, turned": {"dir", true, 0},
		"found":         {"dir", false, 1}, // control
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.write("dir/a.txt", "needle of a\n")
			b.write("b.txt", "needle of b\n")
			p := must.Get(b.propose(fsSearchName, object{"pattern": "needle", "path": c.path}))(t)
			prepared := must.Get(b.tools[fsSearchName].Prepare(t.Context(), p))(t)
			defer prepared.Release()
			report := prepared.Run(t.Context(), tool.Call{Proposal: p, Plan: prepared.Plan, MayRead: func(a tool.FileAccess) bool {
				if at := filepath.Join(b.dir, "dir", "a.txt"); c.turn && a.Facts.Path == "dir/a.txt" {
					_ = os.Remove(at)
					link(t, "../b.txt", at)
					c.turn = false
				}
				return true
			}})
			if got := strings.Count(string(report.Result), "needle of a"); got != c.found || strings.Contains(string(report.Result), "needle of b") {
				t.Errorf("%s", report.Result)
			}
		})
	}
}

// TestListShowsNoSizeOfWhatMayNotBeRead: the size of an unreadable file is omitted, and files
// that may not be listed are omitted.
func TestListShowsNoSizeOfWhatMayNotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.write("a.txt", "1234")
	b.write("secret.txt", "12345")
	b.write("private/deep", "1")
	sizes := func(got map[string]any) (list []string) {
		for _, e := range got["entries"].([]any) {
			list = append(list, fmt.Sprint(e.(map[string]any)["path"], " ", e.(map[string]any)["size"]))
		}
		return list
	}
	got := b.find(fsListName, object{"depth": 3}, &keeps{names: []string{"secret.txt"}, only: fsReadName})
	if want := []string{"a.txt 4", "private 0", "private/deep 1", "secret.txt <nil>"}; !slices.Equal(sizes(got), want) || got["left_out"] != 0.0 {
		t.Errorf("%v, left out %v", sizes(got), got["left_out"])
	}
	got = b.find(fsListName, object{"depth": 3}, &keeps{names: []string{"private"}})
	if want := []string{"a.txt 4", "secret.txt 5"}; !slices.Equal(sizes(got), want) || got["left_out"] != 1.0 {
		t.Errorf("%v, left out %v", sizes(got), got["left_out"])
	}
}

// TestReadReturnsTheCheckedFile: a link that changes between plan and run stops the call. After
// the last check the file is kept open, and this file is read.
func TestReadReturnsTheCheckedFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.write("plain", "plain\n")
	b.write("secret", "secret\n")
	link(t, "plain", filepath.Join(b.dir, "l"))
	turn := func(to string) {
		must.Do(t, os.Remove(filepath.Join(b.dir, "l")))
		link(t, to, filepath.Join(b.dir, "l"))
	}
	p := must.Get(b.propose(fsReadName, object{"path": "l"}))(t)
	read := b.tools[fsReadName]
	plan, err := read.Plan(t.Context(), p)
	if err != nil || plan.Facts.Path != "plain" || plan.Binding.Cwd != "default:plain" {
		t.Fatalf("%+v, %v", plan, err)
	}
	turn("secret")
	if report := b.run(t.Context(), tool.Call{Proposal: p, Plan: plan}); report.Reason != string(reason.BindingMismatch) {
		t.Errorf("%+v", report)
	}
	other, _ := read.Plan(t.Context(), p)
	one, _ := plan.Binding.Digest()
	if two, _ := other.Binding.Digest(); one == two {
		t.Error("an approval of one file would do for another")
	}
	turn("plain")
	prepared := must.Get(read.Prepare(t.Context(), p))(t)
	defer prepared.Release()
	turn("secret")
	report := prepared.Run(t.Context(), tool.Call{Proposal: p, Plan: prepared.Plan})
	if result := b.result(report); result["content"] != "plain\n" || result["path"] != "plain" {
		t.Errorf("%v", result)
	}
	// An edited file has another state, but the call is the same.
	turn("plain")
	plan, _ = read.Plan(t.Context(), p)
	b.write("plain", "edited\n")
	edited, _ := read.Plan(t.Context(), p)
	one, _ = plan.Binding.Digest()
	if two, _ := edited.Binding.Digest(); one != two || plan.Files[0].Inode != edited.Files[0].Inode {
		t.Errorf("%+v, then %+v", plan.Files, edited.Files)
	}
}
