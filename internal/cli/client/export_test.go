package client

// Transient exports transient for tests.
var Transient = transient
