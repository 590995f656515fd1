package main

// allowed are the SPDX identifiers of the licences that a linked component may have. All of them
// permit the distribution of programs without their source code. RATIONALE.md has the reasons.
var allowed = map[string]bool{
	"0BSD":             true,
	"Apache-2.0":       true,
	"blessing":         true,
	"BSD-2-Clause":     true,
	"BSD-3-Clause":     true,
	"ISC":              true,
	"MIT":              true,
	"Unicode-DFS-2016": true,
}
