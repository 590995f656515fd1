// Command bench measures the performance goals: floor and product side by
// side, in the same run, round by round, on the real palyrad where a goal is
// about the daemon. It prints one table and writes it as JSON.
//
// It is a benchmark, never a timed test: a goal that is missed is printed, and
// the exit code is 0. docs/performance.md says how to read the table.
package main
