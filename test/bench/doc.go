// Command bench measures the performance goals: floor and product in the same run, in alternating
// rounds, with the real palyrad for goals about the daemon. It prints one table and writes it as
// JSON.
//
// It is a benchmark, never a timed test: a missed goal is printed, and the exit code is 0.
// docs/performance.md explains the table.
package main
