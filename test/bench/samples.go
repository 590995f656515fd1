//go:build linux

package main

import (
	"math"
	"slices"
	"time"
)

// median returns the middle value, or the mean of the two middle values; 0 for no values.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// percentile returns the smallest value that is not below p percent of the values (nearest rank); 0
// for no values.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// sample measures do n times, in microseconds.
func sample(n int, do func() error) ([]float64, error) {
	values := make([]float64, 0, n)
	for range n {
		started := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		values = append(values, micros(time.Since(started)))
	}
	return values, nil
}

// p50 returns the median of sample.
func p50(n int, do func() error) (float64, error) {
	values, err := sample(n, do)
	return median(values), err
}

// inTurns measures several functions n times each, in turns, and returns their medians in
// microseconds. A slow moment of the machine then affects all of them. It waits for pause before
// each call.
func inTurns(n int, pause time.Duration, dos ...func() error) ([]float64, error) {
	values := make([][]float64, len(dos))
	for range n {
		for i, do := range dos {
			time.Sleep(pause)
			one, err := sample(1, do)
			if err != nil {
				return nil, err
			}
			values[i] = append(values[i], one...)
		}
	}
	medians := make([]float64, len(dos))
	for i := range values {
		medians[i] = median(values[i])
	}
	return medians, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// perSecond returns the rate of n events in a duration.
func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
