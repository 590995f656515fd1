// Command palyra-wasm runs WebAssembly guests for palyrad. palyrad starts it inside a
// sandbox and speaks to it over the socket that is its standard input (internal/exec/wasm/wire).
//
// It is not trusted: the engine in it turns hostile code into native code. So it holds
// no secret and no grant. Whatever a guest wants from outside is asked of palyrad, which
// checks it against the grants of the one call in progress.
//
//	palyra-wasm compile   compiles one module and ends
//	palyra-wasm run       loads compiled modules and runs one call at a time
package main
