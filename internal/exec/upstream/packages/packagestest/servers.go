package packagestest

import _ "embed"

// NodeServer is an MCP server over standard input and output. Its tools read and write files,
// read variables and open connections on request: the program of an untrusted package.
//
//go:embed server.mjs
var NodeServer string

// PythonServer is an MCP server that reports which Python module it was loaded from.
//
//go:embed server.py
var PythonServer string
