// Package wasm runs the real WASM worker in a real sandbox, with correct guests and with a corpus
// of hostile ones.
package wasm
