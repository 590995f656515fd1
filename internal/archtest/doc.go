// Package archtest holds the rules of the repository's structure as tests,
// each with its reason, so that a broken rule explains itself.
//
// A Tree is what the sources say: packages, files, imports, declarations. It
// is read by parsing, without building, so that files of every platform and
// build tag count. Each rule is a function from a Tree to findings; the tests
// run it over the repository and over a small tree that breaks it.
package archtest
