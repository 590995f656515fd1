//go:build linux

package attack

// wasmRows are WASM-01 to WASM-06: operations of a guest without grants, and operations of a
// worker that a guest took over. TestGuests tries them.
func wasmRows() []row {
	var rows []row
	add := func(id, source string, variants ...string) {
		for _, v := range variants {
			rows = append(rows, row{id: id, variant: v, source: source})
		}
	}
	add("WASM-01", "a guest without a grant", "opens a host", "opens a secret", "opens storage", "opens a channel", "guesses the handle of a secret")
	add("WASM-02", "a guest without a grant", "reads the clock", "gets randomness")
	add("WASM-03", "files of the host, by WASI", "opens a file")
	add("WASM-04", "leakage between guests", "finds the memory of another call", "finds the worker of another principal")
	add("WASM-05", "a worker that a guest took over", "reaches a host", "reads a file", "writes a file", "reads compiled code")
	add("WASM-06", "a worker that a guest took over", "says that it used more fuel than there was", "asks for what is no function")
	return rows
}
