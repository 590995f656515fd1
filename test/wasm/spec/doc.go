// Package spec runs the tests of the WebAssembly specification with palyrad's check of a module's
// structure and the real worker. Valid modules must give the specified results, and invalid modules
// must be refused.
package spec
