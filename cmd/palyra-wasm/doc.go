// Command palyra-wasm runs WebAssembly guests for palyrad. palyrad starts it inside a sandbox and
// communicates with it over the socket that is its standard input (internal/exec/wasm/wire).
//
// It is not trusted, because its engine compiles hostile code into native code. Therefore it
// holds no secret and no grant. Every request of a guest for external resources is passed to
// palyrad, which checks it against the grants of the one call in progress.
//
//	palyra-wasm compile   compiles one module and ends
//	palyra-wasm run       loads compiled modules and runs one call at a time
package main
