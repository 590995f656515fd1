package overlay

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// BenchmarkTenThousandFiles measures a large change set. The target is to compute, classify and
// commit it in less than a second.
func BenchmarkTenThousandFiles(b *testing.B) {
	for _, kind := range []string{"new tree", "new files", "changed files", "deleted tree"} {
		b.Run(kind, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				l := tenThousand(b, kind)
				must.Do(b, l.Begin())
				b.StartTimer()
				start := time.Now()
				set, err := l.Changes(b.Context())
				if err != nil || len(set.Changes) < 10_000 {
					b.Fatal(len(set.Changes), err)
				}
				looked := time.Now()
				o := Options{History: History{Dir: b.TempDir()}, ID: "x", At: start}
				applied, err := l.Commit(b.Context(), set, o)
				if err != nil || applied.Left != nil {
					b.Fatal(err, applied.Left)
				}
				b.ReportMetric(float64(looked.Sub(start).Milliseconds()), "ms-changes")
				b.ReportMetric(float64(time.Since(looked).Milliseconds()), "ms-commit")
				b.StopTimer()
				must.Do(b, l.Close())
				b.StartTimer()
			}
		})
	}
}

// tenThousand creates 10,000 files of 2 KiB in 100 directories.
func tenThousand(b *testing.B, kind string) *Layer {
	b.Helper()
	root := b.TempDir()
	l := must.Get(New(Config{Root: root, Name: "ws", Dir: b.TempDir(), UID: -1, GID: -1}))(b)
	fill := func(top string, files bool, content byte) {
		for d := range 100 {
			dir := filepath.Join(top, "tree", fmt.Sprint(d))
			must.Do(b, os.MkdirAll(dir, 0o755))
			for f := 0; files && f < 100; f++ {
				must.Do(b, os.WriteFile(filepath.Join(dir, fmt.Sprint(f)), bytes.Repeat([]byte{content}, 2048), 0o644))
			}
		}
	}
	switch kind {
	case "new files":
		fill(root, false, 0)
	case "changed files":
		fill(root, true, 'a')
	case "deleted tree":
		fill(root, true, 'a')
		whiteoutAt(b, filepath.Join(l.Upper().Name(), "tree"))
		return l
	}
	fill(l.Upper().Name(), true, 'b')
	return l
}
