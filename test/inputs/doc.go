// Package inputs lists inputs on which people found faults: bug reports about other programs, days
// with real agents, and use of the console, the TUI and the CLI by hand. Each file here has a table
// of one part of the product, and each row one fault: the input, the rule that was missing, the test
// that tries the input and wants the right value, and other inputs under the same rule that the test
// or another one tries.
package inputs
