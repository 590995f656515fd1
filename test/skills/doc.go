// Package skills runs skills as they are packed in the real WASM worker: a new one, and
// the examples.
package skills
