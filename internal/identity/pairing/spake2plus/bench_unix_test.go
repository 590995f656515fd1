//go:build unix

package spake2plus

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

// BenchmarkPairing measures the processor time of both sides together, from the PIN to the key.
// The goal for a whole pairing is 300 ms.
func BenchmarkPairing(b *testing.B) {
	salt := must.Get(NewSalt())(b)
	perProcessor(b, func() {
		told := must.Get(Derive([]byte("12345678"), salt, pair))(b)
		held := record(b, must.Get(Derive([]byte("12345678"), salt, pair))(b))
		exchanged(b, told, held)
	})
}

// BenchmarkDerive measures the cost of one guess for an attacker with a stolen record.
func BenchmarkDerive(b *testing.B) {
	salt := must.Get(NewSalt())(b)
	perProcessor(b, func() { must.Get(Derive([]byte("12345678"), salt, pair))(b) })
}

// BenchmarkExchange measures both sides without the derivation.
func BenchmarkExchange(b *testing.B) {
	secret := cheap(b, "12345678")
	held := record(b, secret)
	perProcessor(b, func() { exchanged(b, secret, held) })
}

// BenchmarkVerifier measures the work that an unauthenticated client can cause with one share.
func BenchmarkVerifier(b *testing.B) {
	secret := cheap(b, "12345678")
	held := record(b, secret)
	share := must.Get(NewProver(secret, bound(b)))(b).Share()
	perProcessor(b, func() { must.Get(NewVerifier(held, bound(b), share))(b) })
}

func exchanged(b *testing.B, told *Secret, held *Record) {
	p := must.Get(NewProver(told, bound(b)))(b)
	v := must.Get(NewVerifier(held, bound(b), p.Share()))(b)
	confirmP, _, err := p.Finish(v.Answer())
	must.Do(b, err)
	must.Get(v.Finish(confirmP))(b)
}

// perProcessor reports the processor time in addition to the elapsed time, because other work
// on the machine hardly affects it.
func perProcessor(b *testing.B, do func()) {
	before := spent(b)
	for b.Loop() {
		do()
	}
	b.ReportMetric(float64(spent(b)-before)/float64(b.N)/float64(time.Millisecond), "cpu-ms/op")
}

// spent returns the processor time of this process so far, including kernel time.
func spent(b *testing.B) time.Duration {
	var used unix.Rusage
	must.Do(b, unix.Getrusage(unix.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
