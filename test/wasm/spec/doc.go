// Package spec runs the tests of the WebAssembly specification through palyrad's check of
// a module's structure and the real worker: what is valid runs and gives what the
// specification says, and what is not is refused.
package spec
