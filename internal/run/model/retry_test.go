package model_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/run/model"
)

// provider fails with the given errors, one for each attempt, and then succeeds.
type provider struct {
	failures []error
	attempts int
}

func (p *provider) attempt(context.Context) (model.Turn, error) {
	p.attempts++
	if p.attempts <= len(p.failures) {
		return model.Turn{}, p.failures[p.attempts-1]
	}
	return model.Turn{Text: "well"}, nil
}

func asks(wait time.Duration) *model.Transient {
	failed := model.Unavailable("overloaded")
	failed.Wait = wait
	return failed
}

func TestRetriesWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failures []error
		retries  model.Retries
		// least and most are the bounds of each wait. Their sums are the bounds of the turn's
		// duration.
		least, most []time.Duration
	}{
		"none":       {},
		"doubling":   {failures: []error{asks(0), asks(0), asks(0), asks(0)}, least: seconds(0.5, 1, 2, 4), most: seconds(1, 2, 4, 8)},
		"bounded":    {failures: []error{asks(0), asks(0)}, retries: model.Retries{MaxWait: time.Second}, least: seconds(0.5, 1), most: seconds(1, 1)},
		"asked":      {failures: []error{asks(7 * time.Second), asks(time.Minute)}, least: seconds(7, 60), most: seconds(7, 60)},
		"wrapped":    {failures: []error{errors.Join(asks(time.Second))}, least: seconds(1), most: seconds(1)},
		"many allow": {failures: slices.Repeat([]error{asks(0)}, 30), retries: model.Retries{Attempts: 31, MaxWait: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, heard, began := &provider{failures: c.failures}, []model.Retry(nil), time.Now()
				turn, err := c.retries.Generate(t.Context(), func(e model.Event) { heard = append(heard, *e.Retry) }, p.attempt)
				if err != nil || turn.Text != "well" || len(heard) != len(c.failures) {
					t.Fatalf("%+v, %v, %d retries", turn, err, len(heard))
				}
				var sum time.Duration
				for i, retry := range heard {
					sum += retry.After
					if retry.Attempt != i+1 || reason.Of(retry.Cause) != reason.ModelUnavailable {
						t.Errorf("retry %d is %+v", i, retry)
					}
					if i < len(c.least) && (retry.After < c.least[i] || retry.After > c.most[i]) {
						t.Errorf("retry %d after %s, want %s to %s", i, retry.After, c.least[i], c.most[i])
					}
				}
				if took := time.Since(began); took != sum {
					t.Errorf("took %s, the retries say %s", took, sum)
				}
			})
		})
	}
}

func seconds(all ...float64) []time.Duration {
	var out []time.Duration
	for _, s := range all {
		out = append(out, time.Duration(s*float64(time.Second)))
	}
	return out
}

func TestRetriesVary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits := make(map[time.Duration]bool)
		for range 20 {
			p := &provider{failures: []error{asks(0)}}
			_, _ = model.Retries{}.Generate(t.Context(), func(e model.Event) { waits[e.Retry.After] = true }, p.attempt)
		}
		if len(waits) < 10 {
			t.Errorf("20 runs that failed together wait %d different times", len(waits))
		}
	})
}

func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	rejected := reason.Errorf(reason.ModelRejected, "no")
	for name, c := range map[string]struct {
		failures []error
		attempts int
		code     reason.Code
		field    string
	}{
		"unavailable":  {failures: []error{asks(0), asks(0), asks(0), asks(0), asks(0)}, attempts: 5, code: reason.ModelUnavailable, field: "attempts"},
		"rejected":     {failures: []error{asks(0), rejected}, attempts: 2, code: reason.ModelRejected},
		"long wait":    {failures: []error{asks(time.Minute + 1)}, attempts: 1, code: reason.ModelUnavailable, field: "retry_at"},
		"endless wait": {failures: []error{asks(1<<63 - 1)}, attempts: 1, code: reason.ModelUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &provider{failures: c.failures}
				_, err := model.Retries{}.Generate(t.Context(), func(model.Event) {}, p.attempt)
				var e *reason.Error
				if !errors.As(err, &e) || e.Code != c.code || p.attempts != c.attempts {
					t.Errorf("%v after %d attempts", err, p.attempts)
				}
				if c.field != "" && e.Fields[c.field] == "" {
					t.Errorf("the fields are %v", e.Fields)
				}
			})
		})
	}
}

func TestRetriesCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("the operator cancelled"))
		defer cancel()
		p, began := &provider{failures: []error{asks(time.Minute)}}, time.Now()
		_, err := model.Retries{}.Generate(ctx, func(model.Event) {}, p.attempt)
		if reason.Of(err) != reason.Cancelled || time.Since(began) != 10*time.Second || p.attempts != 1 {
			t.Errorf("%v after %s and %d attempts", err, time.Since(began), p.attempts)
		}
	})
}
