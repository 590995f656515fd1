// Package archtest has the rules of the repository's structure as tests. Each rule has its reason,
// which a finding prints.
//
// A Tree has the structure of the sources: packages, files, imports, declarations. It is parsed
// without building, so that it includes files of every platform and build tag. Each rule is a
// function from a Tree to findings. The tests run it on the repository and on a small tree that
// breaks it.
package archtest
