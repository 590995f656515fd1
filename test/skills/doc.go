// Package skills runs packed skills in the real WASM worker: a new skill, and the examples.
package skills
