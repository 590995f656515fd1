// Package wasm drives the real WASM worker in a real sandbox: guests that are well, and a
// corpus of hostile ones.
package wasm
