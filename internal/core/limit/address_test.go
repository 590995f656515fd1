package limit

import (
	"fmt"
	"testing"
	"testing/synctest"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.7":             "192.0.2.7",
		"::ffff:192.0.2.7":      "192.0.2.7",
		"127.0.0.1":             "127.0.0.1",
		"::1":                   "::1",
		"2001:db8:1:2::7":       "2001:db8:1:2::/64",
		"2001:db8:1:2:ff::":     "2001:db8:1:2::/64",
		"2001:DB8:1:3::7":       "2001:db8:1:3::/64",
		"fe80::1234%eth0":       "fe80::/64%eth0",
		"fe80::1234":            "fe80::/64",
		"":                      "",
		"pipe":                  "pipe",
		"2001:db8::1/128":       "2001:db8::1/128",
		"::ffff:192.0.2.7%eth0": "192.0.2.7",
	} {
		if got := Address(address); got != want {
			t.Errorf("Address(%q) = %q, want %q", address, got, want)
		}
	}
}

// TestOneNetworkIsOneKey: a client with a network of 2^64 addresses gets the requests of one.
// Control: each address counts by itself.
func TestOneNetworkIsOneKey(t *testing.T) {
	t.Parallel()
	served := func(key func(string) string) (n int) {
		synctest.Test(t, func(t *testing.T) {
			l := limiter(t, Rates{Each: Limit{PerSecond: 1, Burst: 5}, Global: Limit{PerSecond: 1000, Burst: 1000}})
			for i := range 100 {
				if ok, _ := l.Allow(read, key(fmt.Sprintf("2001:db8:1:2::%x", i))); ok {
					n++
				}
			}
			if ok, _ := l.Allow(read, key("2001:db8:1:3::1")); !ok {
				t.Error("one network's requests count against another's")
			}
		})
		return n
	}
	if n := served(Address); n != 5 {
		t.Errorf("a network was served %d times at once, want the burst of 5", n)
	}
	if n := served(func(address string) string { return address }); n != 100 {
		t.Errorf("the control was served %d times, want 100; the test shows nothing", n)
	}
}
