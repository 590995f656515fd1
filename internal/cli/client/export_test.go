package client

// What the tests from outside look into.
var Transient = transient
