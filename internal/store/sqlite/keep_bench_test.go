//go:build unix

package sqlite_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"palyra/internal/call"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// cpu returns the processor time of this process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkKeep records calls with results of several sizes, and measures the processor time
// per call, which does not depend on other work on the machine.
func BenchmarkKeep(b *testing.B) {
	for _, size := range []int{64, 4 << 10, 256 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			db := sqlitetest.Open(b)
			calls := sqlite.NewCalls(db)
			result := make([]byte, size)
			entry := call.Entry{Drafts: []event.Draft{benchDraft(), benchDraft(), benchDraft(), benchDraft()}, Blobs: [][]byte{result}}
			_, err := calls.Record(context.Background(), entry)
			must.Do(b, err)
			runtime.GC()
			began := cpu(b)
			b.ResetTimer()
			for range b.N {
				_, _ = rand.Read(result[:32])
				if _, err := calls.Record(context.Background(), entry); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}
