package policy

// BuiltinToolsJSON exports builtinToolsJSON for tests.
var BuiltinToolsJSON = builtinToolsJSON
