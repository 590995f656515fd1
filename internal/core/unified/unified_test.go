package unified

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		file File
		want string
	}{
		{"changed", File{OldPath: "f", NewPath: "f", Old: []byte("a\nb\nc\n"), New: []byte("a\nB\nc\n")}, "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"},
		{"new", File{NewPath: "f", New: []byte("a"), NewMode: "120000"}, "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n"},
		{"deleted", File{OldPath: "f", Old: []byte("a\n")}, "diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"},
		{"mode", File{OldPath: "f", NewPath: "f", OldMode: "100644", NewMode: "100755"}, "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"},
		{"renamed", File{OldPath: "f", NewPath: "g"}, "diff --git a/f b/g\nrename from f\nrename to g\n"},
		{"binary", File{OldPath: "f", NewPath: "f", Old: []byte("a\x00"), New: []byte("b")}, "Binary files a/f and b/f differ (2 bytes, then 1 bytes)\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.file.Diff(); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// A name that a terminal or a reader could misinterpret is quoted.
func TestOddNamesAreQuoted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a\nb", "a\x1b[2J", "\u202egnp", "\xff", `a"b`, "z\u200bw"} {
		head, _, _ := strings.Cut(File{NewPath: name}.Diff(), "new file")
		if strings.Contains(head, name) || !strings.Contains(head, `"b/`) || strings.Count(head, "\n") != 1 {
			t.Errorf("%q is written %q", name, head)
		}
	}
}
