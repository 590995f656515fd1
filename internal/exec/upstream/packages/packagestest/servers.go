package packagestest

import _ "embed"

// NodeServer is an MCP server over standard input and output that reads and writes
// files, reads variables and connects, as its tools are asked to: the program of a
// package that a test does not trust.
//
//go:embed server.mjs
var NodeServer string

// PythonServer is one that says which Python module it was loaded from.
//
//go:embed server.py
var PythonServer string
