// The specification's tests as WebAssembly and JSON, as data: wazero's module has them.
// Nothing of it is built. The tool keeps the requirement.
module palyra/test/wasm/spec/testdata

go 1.26.0

tool github.com/tetratelabs/wazero/cmd/wazero

require (
	github.com/tetratelabs/wazero v1.12.0 // indirect
	golang.org/x/sys v0.44.0 // indirect
)
