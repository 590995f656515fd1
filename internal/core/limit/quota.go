package limit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Quota limits bytes; all fields are positive.
type Quota struct {
	// PerSecond bytes flow into a bucket that holds Burst. Begin removes its bytes, and refuses if
	// the bucket has fewer. Charge always removes its bytes, and may make the bucket negative.
	PerSecond, Burst int64
	// Day limits the bytes that a principal stores within 24 hours, counted by the hour.
	Day int64
	// InFlight limits the bytes of running calls of one principal, InFlightAll of all together.
	InFlight, InFlightAll int64
}

// Refusal names the limit that is reached.
type Refusal struct {
	// Limit is "rate", "day", "in_flight" or "in_flight_all".
	Limit string
	// Most is the limit in bytes; for "rate" it is Quota.Burst.
	Most int64
	// RetryAfter is the time until the same bytes fit. It is 0 for the limits in flight, where a
	// running call has to end first.
	RetryAfter time.Duration
}

// Error describes the limit.
func (r *Refusal) Error() string {
	return fmt.Sprintf("the limit %s of %d bytes is reached", r.Limit, r.Most)
}

// Usage is the number of bytes that Who stored in one hour.
type Usage struct {
	Who string
	// Hour is the number of hours since 1970, UTC.
	Hour  int64
	Bytes int64
}

// day is the number of hours that count, including the current one.
const day = 24

// Book counts bytes against the limits. It is safe for concurrent use.
type Book struct {
	limits Quota
	now    func() time.Time

	mu       sync.Mutex
	accounts map[string]*account
	inFlight int64
}

type account struct {
	tokens   float64
	at       time.Time
	inFlight int64
	hours    map[int64]int64
	// changed are the hours that Changed has yet to return.
	changed map[int64]bool
}

// NewBook returns an empty book. A nil clock is time.Now.
func NewBook(l Quota, now func() time.Time) (*Book, error) {
	if min(l.PerSecond, l.Burst, l.Day, l.InFlight, l.InFlightAll) <= 0 {
		return nil, fmt.Errorf("every quota has to be positive")
	}
	if now == nil {
		now = time.Now
	}
	return &Book{limits: l, now: now, accounts: map[string]*account{}}, nil
}

// HourOf returns the hour of a time, as in Usage.
func HourOf(at time.Time) int64 { return at.Unix() / 3600 }

func (b *Book) account(who string, now time.Time) *account {
	a := b.accounts[who]
	if a == nil {
		a = &account{tokens: float64(b.limits.Burst), at: now, hours: map[int64]int64{}, changed: map[int64]bool{}}
		b.accounts[who] = a
	}
	a.tokens = min(a.tokens+max(now.Sub(a.at).Seconds(), 0)*float64(b.limits.PerSecond), float64(b.limits.Burst))
	a.at = now
	for hour := range a.hours {
		if hour <= HourOf(now)-day {
			delete(a.hours, hour)
			delete(a.changed, hour)
		}
	}
	return a
}

func (a *account) today() (sum int64) {
	for _, n := range a.hours {
		sum += n
	}
	return sum
}

// Begin counts n bytes of who as in flight until end is called; further calls of end do
// nothing. A refusal counts nothing.
func (b *Book) Begin(who string, n int64) (end func(), refused *Refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	a := b.account(who, now)
	if refused := b.judge(a, n, now); refused != nil {
		return nil, refused
	}
	a.tokens -= float64(n)
	a.inFlight += n
	b.inFlight += n
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		a.inFlight -= n
		b.inFlight -= n
	}), nil
}

func (b *Book) judge(a *account, n int64, now time.Time) *Refusal {
	l := b.limits
	switch missing := float64(n) - a.tokens; {
	case a.inFlight+n > l.InFlight:
		return &Refusal{Limit: "in_flight", Most: l.InFlight}
	case b.inFlight+n > l.InFlightAll:
		return &Refusal{Limit: "in_flight_all", Most: l.InFlightAll}
	case a.today()+a.inFlight+n > l.Day:
		return &Refusal{Limit: "day", Most: l.Day, RetryAfter: a.fits(l.Day-a.inFlight-n, now)}
	case missing > 0:
		return &Refusal{Limit: "rate", Most: l.Burst, RetryAfter: time.Duration(math.Ceil(missing/float64(l.PerSecond)*1000)) * time.Millisecond}
	}
	return nil
}

// fits returns the time until the sum of the day is at most most.
func (a *account) fits(most int64, now time.Time) time.Duration {
	hours := make([]int64, 0, len(a.hours))
	for hour := range a.hours {
		hours = append(hours, hour)
	}
	slices.Sort(hours)
	left := a.today()
	for _, hour := range hours {
		if left -= a.hours[hour]; left <= most {
			return time.Unix((hour+day)*3600, 0).Sub(now)
		}
	}
	return day * time.Hour
}

// Charge counts n bytes that who stored. It refuses nothing, because the bytes are already
// written. Beyond the limits, the next Begin is refused.
func (b *Book) Charge(who string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	a := b.account(who, now)
	a.tokens -= float64(n)
	a.hours[HourOf(now)] += n
	a.changed[HourOf(now)] = true
}

// Changed returns the hours that changed since the last call of Changed, ordered by Who and
// Hour. The caller stores them, or calls Unkept.
func (b *Book) Changed() (list []Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for who, a := range b.accounts {
		for hour := range a.changed {
			list = append(list, Usage{Who: who, Hour: hour, Bytes: a.hours[hour]})
		}
		clear(a.changed)
	}
	slices.SortFunc(list, func(x, y Usage) int { return cmp.Or(cmp.Compare(x.Who, y.Who), cmp.Compare(x.Hour, y.Hour)) })
	return list
}

// Unkept marks hours that Changed returned and that could not be stored: the next call of
// Changed returns them again.
func (b *Book) Unkept(list []Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range list {
		if a := b.accounts[u.Who]; a != nil && a.hours[u.Hour] > 0 {
			a.changed[u.Hour] = true
		}
	}
}

// Restore adds the usage stored before the start; hours older than a day do not count.
func (b *Book) Restore(list []Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for _, u := range list {
		if HourOf(now)-day < u.Hour && u.Hour <= HourOf(now) {
			b.account(u.Who, now).hours[u.Hour] += u.Bytes
		}
	}
}
