//go:build linux

package main

import (
	"math"
	"slices"
	"time"
)

// median is the middle value, or the mean of the two in the middle; 0 of none.
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

// percentile is the smallest value that is not below p percent of them
// (nearest rank); 0 of none.
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

// p50 is the median of sample.
func p50(n int, do func() error) (float64, error) {
	values, err := sample(n, do)
	return median(values), err
}

// inTurns measures several things n times each, one after the other, and returns
// their medians in microseconds: what slows the machine down for a moment then
// slows down all of them. Before each it waits for pause.
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

// perSecond is the rate of n in a time.
func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
