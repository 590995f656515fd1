package policy

// What the tests from outside look into.
var BuiltinToolsJSON = builtinToolsJSON
