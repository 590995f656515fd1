// Package inputs lists inputs on which people found faults: bug reports about other programs,
// days with real agents, and use of the console, the TUI and the CLI by hand. Each file has a
// table for one part of the product, and each row is one fault. A row has the input, the rule
// that was missing, and the test that tries the input and expects the right value. It also has
// other inputs under the same rule, which this test or another one tries.
package inputs
